import { useEffect, useRef, useState } from 'preact/hooks';
import type { JobView } from '../../protocol/jobs.ts';
import { bytes } from '../../show/format.ts';
import { Problem, useAction } from '../controls/action.tsx';
import { at, go } from '../router.ts';
import { type TypedJson, typedJson } from '../typed-json.ts';
import { readContents } from './read-contents.ts';
import { submitCopy } from './submit-copy.ts';

/** A payload of more bytes is not edited here: typing in it would lag. */
const MOST_EDITED_BYTES = 1_000_000;

interface Props {
  job: Omit<JobView, 'result'>;
  onClose(): void;
}

/** Shows a job's payload in an editor; the edited payload is submitted as another job, whose page is shown then. */
export function EditAndRun({ job, onClose }: Props) {
  const [text, setText] = useState<string | null>(null);
  const [isTooLarge, setTooLarge] = useState(false);
  const { act, isActing, problem } = useAction();
  const editor = useRef<HTMLTextAreaElement>(null);
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
    <form class="edit" aria-labelledby="edit-title" onSubmit={run}>
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
