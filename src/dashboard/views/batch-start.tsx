import { useRef, useState } from 'preact/hooks';
import { ANY_ENDPOINT, urlOfLine } from '../../protocol/batch-lines.ts';
import { ask } from '../api.ts';
import { Problem, useAction } from '../controls/action.tsx';

/** The bytes at a file's beginning that show which routes its lines name. */
const BEGINNING_BYTES = 1024 * 1024;

const WINDOWS = ['1h', '4h', '24h', '7d'];

/** Uploads a file of requests and runs it as a batch. @param onStart called when there is a new batch */
export function BatchStart({ onStart }: { onStart(): void }) {
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
      <label>
        <span>To be done within</span>
        <select name="window" defaultValue="24h">
          {WINDOWS.map((window) => (
            <option key={window} value={window} selected={window === '24h'}>
              {window}
            </option>
          ))}
        </select>
      </label>
      <button type="submit" disabled={isActing}>
        {said ?? 'Start a batch'}
      </button>
      <Problem text={problem} />
    </form>
  );
}

/** @throws Error with a message for the person */
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
    // The last line may be cut.
    return others.some((other) => other !== null && other !== url) ? ANY_ENDPOINT : url;
  }
  throw new Error(
    'The first line is none of a batch. Expected {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {…}}.',
  );
}
