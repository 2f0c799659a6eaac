import { useRef, useState } from 'preact/hooks';
import { ANY_ENDPOINT, urlOfLine } from '../../protocol/batch-lines.ts';
import type { Batch, BatchList } from '../../protocol/file-answers.ts';
import * as format from '../../show/format.ts';
import { ask } from '../api.ts';
import { now } from '../clock.ts';
import { Problem, useAction } from '../controls/action.tsx';
import { Choice } from '../controls/choice.tsx';
import { Figure, Progress } from '../controls/figures.tsx';
import { BatchMark } from '../controls/marks.tsx';
import { Age, WaitingFor } from '../controls/time.tsx';
import { ownFailure, usePolled } from '../polled.ts';
import { at } from '../router.ts';
import { maySubmit } from '../session.ts';

/** The most batches that are shown, as many as a page of the API has. */
const MOST_SHOWN = 100;
const LOOK_MS = 2000;

/** Shows the batches, newest first. */
export function BatchesView() {
  // The list is read again at once when a batch was started here.
  const [started, setStarted] = useState(0);
  const { data, failure } = usePolled<BatchList>(`v1/batches?limit=${MOST_SHOWN}`, LOOK_MS, started).value;
  return (
    <section class="view" aria-labelledby="batches-title">
      <h1 id="batches-title">Batches</h1>
      {maySubmit.value && <BatchStart onStart={() => setStarted(started + 1)} />}
      <Problem text={ownFailure(failure)} />
      {data?.data.map((batch) => (
        <BatchCard key={batch.id} batch={batch} />
      ))}
      {data?.data.length === 0 && (
        <p class="notice">
          No batch has been created. A batch is a file of requests, which run when there is room. Upload one
          here, or type <code>npx worker-vllm batch run requests.jsonl</code>.
        </p>
      )}
      {data?.has_more && (
        <p class="list-end dim">
          These are the newest batches; <code>GET /v1/batches</code> lists all.
        </p>
      )}
    </section>
  );
}

function BatchCard({ batch }: { batch: Batch }) {
  const { id, endpoint, status, created_at, errors, request_counts, usage } = batch;
  const { total, completed, failed } = request_counts;
  const done = completed + failed;
  return (
    <article class="batch" aria-labelledby={id}>
      <header>
        <h2 id={id} class="id">
          {id}
        </h2>
        <BatchMark status={status} share={total === 0 ? null : done / total} />
        <p class="dim">
          {endpoint}, created <Age at={created_at * 1000} /> ago
        </p>
        <Actions batch={batch} />
      </header>
      {total > 0 && <Progress share={done / total} label={`Lines of ${id} that are done`} />}
      <dl class="rates">
        <Figure name="Lines">{format.count(total)}</Figure>
        <Figure name="Succeeded">{format.count(completed)}</Figure>
        <Figure name="Failed">{format.count(failed)}</Figure>
        <Pace batch={batch} done={done} />
        <Figure name="Tokens in">{format.count(usage.input_tokens)}</Figure>
        <Figure name="Tokens out">{format.count(usage.output_tokens)}</Figure>
      </dl>
      {batch.waiting && <WaitingFor waiting={batch.waiting} />}
      <ErrorKinds counts={batch.error_counts} />
      {errors && (
        <ul class="faults">
          {errors.data.slice(0, MOST_FAULTS).map(({ line, message }) => (
            <li key={line}>
              {line !== null && `Line ${format.count(line)}: `}
              {message}
            </li>
          ))}
        </ul>
      )}
    </article>
  );
}

/** The most faults of a file that are shown; the API reports a hundred. */
const MOST_FAULTS = 10;

/**
 * Shows lines a second since the batch began; while the batch runs, also when it will end at that pace, and when its
 * window ends.
 */
function Pace({ batch, done }: { batch: Batch; done: number }) {
  const { status, in_progress_at, finalizing_at, cancelling_at, expires_at, request_counts } = batch;
  if (in_progress_at === null) return null;
  const nowS = now.value / 1000;
  const isRunning = status === 'in_progress';
  const until = isRunning ? nowS : (finalizing_at ?? cancelling_at ?? expires_at);
  const perSecond = done / Math.max(1, until - in_progress_at);
  const leftMs = perSecond === 0 ? null : ((request_counts.total - done) / perSecond) * 1000;
  return (
    <>
      <Figure name="Lines a second">{done === 0 ? format.UNKNOWN : perSecond.toPrecision(2)}</Figure>
      {isRunning && <Figure name="Done in about">{format.age(leftMs)}</Figure>}
      {isRunning && <Figure name="Window ends in">{format.age((expires_at - nowS) * 1000)}</Figure>}
    </>
  );
}

function ErrorKinds({ counts }: { counts: Record<string, number> }) {
  const kinds = Object.entries(counts).sort(([, one], [, other]) => other - one);
  if (kinds.length === 0) return null;
  // A kind without a code of its own is the status that the engine answered.
  const words = (kind: string) => (/^\d+$/.test(kind) ? `status ${kind}` : kind);
  return <p>Errors: {kinds.map(([kind, lines]) => `${format.count(lines)} × ${words(kind)}`).join(', ')}</p>;
}

function Actions({ batch }: { batch: Batch }) {
  const { id, status, output_file_id, error_file_id, partial_output_file_id, partial_error_file_id } = batch;
  const { act, isActing, problem } = useAction();
  if (!maySubmit.value) return null;
  const cancel = async () => {
    await ask(`v1/batches/${encodeURIComponent(id)}/cancel`, { method: 'POST' });
  };
  const isPartial = partial_output_file_id !== null || partial_error_file_id !== null;
  return (
    <div class="actions">
      <Download file={output_file_id ?? partial_output_file_id} name={`${id}_output.jsonl`}>
        {isPartial ? 'Output so far' : 'Output'}
      </Download>
      <Download file={error_file_id ?? partial_error_file_id} name={`${id}_error.jsonl`}>
        {isPartial ? 'Errors so far' : 'Errors'}
      </Download>
      {(status === 'validating' || status === 'in_progress') && (
        <button type="button" class="danger" onClick={() => act(cancel)} disabled={isActing}>
          Cancel<span class="unseen"> the batch {id}</span>
        </button>
      )}
      <Problem text={problem} />
    </div>
  );
}

function Download({ file, name, children }: { file: string | null; name: string; children: string }) {
  if (file === null) return null;
  return (
    <a class="button" href={at(`v1/files/${encodeURIComponent(file)}/content`)} download={name}>
      {children}
    </a>
  );
}

/** The number of bytes at a file's beginning that show which routes its lines name. */
const BEGINNING_BYTES = 1024 * 1024;

/** The windows to choose from, in words. */
const WINDOWS = { '1h': '1 hour', '4h': '4 hours', '24h': '24 hours', '7d': '7 days' };

/** Uploads a file of requests and runs it as a batch. @param onStart called when there is a new batch */
function BatchStart({ onStart }: { onStart(): void }) {
  const form = useRef<HTMLFormElement>(null);
  const [said, setSaid] = useState<string | null>(null);
  const { act, isActing, problem } = useAction();
  const start = async (event: Event) => {
    event.preventDefault();
    const fields = new FormData(form.current!);
    const file = fields.get('file') as File;
    await act(async () => {
      await run(file, String(fields.get('window')), setSaid);
      form.current?.reset();
      onStart();
    });
    setSaid(null);
  };
  return (
    <form ref={form} class="filters" aria-label="Start a batch" onSubmit={start}>
      <label>
        <span>File of requests, one a line</span>
        <input type="file" name="file" accept=".jsonl,application/jsonl" required />
      </label>
      <Choice label="To be done within" name="window" options={WINDOWS} chosen="24h" />
      <button type="submit" disabled={isActing}>
        {said ?? 'Start a batch'}
      </button>
      <Problem text={problem} />
    </form>
  );
}

/** Uploads a file and starts the batch. @throws Error with a message for the person */
async function run(file: File, completion_window: string, say: (doing: string) => void): Promise<void> {
  const endpoint = await endpointOf(file);
  say('Uploading …');
  const name = encodeURIComponent(file.name);
  const { id } = await ask<{ id: string }>(`v1/files?purpose=batch&filename=${name}`, {
    method: 'POST',
    body: file,
    headers: { 'content-type': 'application/jsonl' },
  });
  say('Starting …');
  const body = JSON.stringify({ input_file_id: id, endpoint, completion_window });
  const headers = { 'content-type': 'application/json' };
  await ask('v1/batches', { method: 'POST', body, headers });
}

/** Returns the route that all lines name, judging by the file's beginning; the queue checks the rest. */
async function endpointOf(file: File): Promise<string> {
  const beginning = await file.slice(0, BEGINNING_BYTES).text();
  const [url, ...others] = beginning.trim().split('\n').map(urlOfLine);
  if (typeof url === 'string') {
    // The last line may be cut off.
    return others.some((other) => other !== null && other !== url) ? ANY_ENDPOINT : url;
  }
  throw new Error(
    'The first line is not a request of a batch. Expected {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {…}}.',
  );
}
