import { useEffect, useRef, useState } from 'preact/hooks';
import type { JobView } from '../../protocol/jobs.ts';
import { bytes } from '../../show/format.ts';
import { ask } from '../api.ts';
import { Problem, useAction } from '../controls/action.tsx';
import { useFocusBack } from '../controls/focus.ts';
import { at, go } from '../router.ts';
import { maySubmit } from '../session.ts';
import { type TypedJson, typedJson } from '../typed-json.ts';
import { isSettled } from './job-columns.tsx';
import { readContents } from './job-contents.tsx';

interface ActionsProps {
  job: Omit<JobView, 'result'>;
  /** Called when the job has changed. */
  onChange(): void;
  /** Called when the job is to be run again with another payload. */
  onEdit(): void;
}

/**
 * Shows buttons that cancel a job which has not ended, or run again one that has; any job can be edited and run as a
 * new one.
 */
export function JobActions({ job, onChange, onEdit }: ActionsProps) {
  const { act, isActing, problem } = useAction();
  if (!maySubmit.value) return null;
  const path = `api/jobs/${encodeURIComponent(job.id)}`;
  const cancel = async () => {
    await ask(path, { method: 'DELETE' });
    onChange();
  };
  const runAgain = async () => {
    if (job.state === 'failed' || job.state === 'expired') {
      await ask(`${path}/retry`, { method: 'POST' });
      return onChange();
    }
    const id = await submitCopy(job, await ask<unknown>(`${path}/payload`));
    go(`jobs/${encodeURIComponent(id)}`);
  };
  return (
    <div class="actions">
      {isSettled(job.state) ? (
        <button type="button" onClick={() => act(runAgain)} disabled={isActing}>
          Run again
        </button>
      ) : (
        <button type="button" class="danger" onClick={() => act(cancel)} disabled={isActing}>
          Cancel the job
        </button>
      )}
      <button type="button" onClick={onEdit}>
        Edit and run again
      </button>
      <Problem text={problem} />
    </div>
  );
}

/** A payload of more than this many bytes is not edited here, since typing in it would lag. */
const MOST_EDITED_BYTES = 1_000_000;

interface EditorProps {
  job: Omit<JobView, 'result'>;
  onClose(): void;
}

/** Shows a job's payload in an editor; the edited payload is submitted as another job, whose page is then shown. */
export function EditAndRun({ job, onClose }: EditorProps) {
  const [text, setText] = useState<string | null>(null);
  const [isTooLarge, setTooLarge] = useState(false);
  const { act, isActing, problem } = useAction();
  const form = useRef<HTMLFormElement>(null);
  const editor = useRef<HTMLTextAreaElement>(null);
  useFocusBack(form);
  const path = `api/jobs/${encodeURIComponent(job.id)}/payload`;
  useEffect(() => {
    void act(async () => {
      const read = await readContents(path, MOST_EDITED_BYTES);
      if (read.isWhole) setText(read.text);
      else setTooLarge(true);
    });
  }, []);
  useEffect(() => {
    editor.current?.focus();
    editor.current?.setSelectionRange(0, 0);
  }, [text === null]);
  const parsed = text === null ? null : typedPayload(text);
  const fault = parsed && 'fault' in parsed ? parsed.fault : null;

  const run = (event: Event) => {
    event.preventDefault();
    if (isActing || !parsed) return;
    if ('fault' in parsed) {
      editor.current?.focus();
      editor.current?.setSelectionRange(parsed.at, parsed.at);
      return;
    }
    void act(async () => {
      go(`jobs/${encodeURIComponent(await submitCopy(job, parsed.value))}`);
    });
  };

  return (
    <form ref={form} class="edit" aria-labelledby="edit-title" onSubmit={run}>
      <h2 id="edit-title">Edit and run again</h2>
      <p class="dim">Runs as another job, of the same type, pool and priority. This one stays as it is.</p>
      {isTooLarge && (
        <p>
          The payload is larger than {bytes(MOST_EDITED_BYTES)}, too large to edit here.{' '}
          <a href={at(path)} download={`${job.id}-payload.json`}>
            Download it
          </a>
          , edit it, and submit it with <code>npx worker-vllm submit</code>.
        </p>
      )}
      {text === null && isActing && <p class="dim">Loading …</p>}
      {text !== null && (
        <>
          <textarea
            ref={editor}
            class="code"
            aria-label="Payload to run, as JSON"
            aria-invalid={fault !== null}
            aria-describedby="edit-fault"
            spellcheck={false}
            rows={16}
            value={text}
            onInput={(event) => setText(event.currentTarget.value)}
          />
          <p id="edit-fault" class="problem fault" role="status">
            {fault}
          </p>
        </>
      )}
      <Problem text={problem} />
      <div class="buttons">
        {text !== null && (
          <button type="submit" class="primary" disabled={isActing}>
            Run as a new job
          </button>
        )}
        <button type="button" onClick={onClose}>
          Close the editor
        </button>
      </div>
    </form>
  );
}

function typedPayload(text: string): TypedJson {
  const typed = typedJson(text);
  if ('fault' in typed) return typed;
  const isObject = typeof typed.value === 'object' && typed.value !== null && !Array.isArray(typed.value);
  return isObject ? typed : { fault: 'A payload is a JSON object, such as {"messages": []}.', at: 0 };
}

type Copied = Pick<JobView, 'job_type' | 'config_id' | 'priority' | 'max_attempts' | 'stream'>;

/** Submits a new job like this one, which stays as it is. @returns the new job's id @throws ApiFailure */
async function submitCopy(job: Copied, payload: unknown): Promise<string> {
  const { job_type, config_id, priority, max_attempts, stream } = job;
  const copy = { job_type, config_id, priority, max_attempts, payload, ...(stream && { stream }) };
  const { id } = await ask<{ id: string }>('api/jobs', { method: 'POST', body: JSON.stringify(copy) });
  return id;
}
