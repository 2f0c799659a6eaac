import { useState } from 'preact/hooks';
import type { JobView } from '../../protocol/jobs.ts';
import { bytes } from '../../show/format.ts';
import { request } from '../api.ts';
import { CopyButton, Problem } from '../controls/action.tsx';
import { at } from '../router.ts';

/** The most bytes of a payload or a result that are shown, since more has crashed tabs. */
const MOST_SHOWN_BYTES = 65_536;

/** The number of lines in view; the others scroll. */
const MOST_ROWS = 24;

type Job = Pick<JobView, 'id' | 'state'>;

/** Shows a job's payload and result, folded: each is read only when it is opened. */
export function JobContents({ job }: { job: Job }) {
  return (
    <>
      <h2>Contents</h2>
      <Content job={job} kind="payload" name="Payload" />
      {job.state === 'succeeded' && <Content job={job} kind="result" name="Result" />}
    </>
  );
}

function Content({ job, kind, name }: { job: Job; kind: 'payload' | 'result'; name: string }) {
  const [read, setRead] = useState<Read | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const path = `api/jobs/${encodeURIComponent(job.id)}/${kind}`;
  const open = (event: Event) => {
    if (!(event.currentTarget as HTMLDetailsElement).open || read) return;
    readContents(path, MOST_SHOWN_BYTES).then(setRead, (error: Error) => setProblem(error.message));
  };
  return (
    <details class="content" onToggle={open}>
      <summary>{name}</summary>
      <Problem text={problem} />
      {!read && !problem && <p class="dim">Loading …</p>}
      {read && (
        <>
          <p class="content-bar">
            {!read.isWhole && <span>The first {bytes(MOST_SHOWN_BYTES)}.</span>}
            <a class="button" href={at(path)} download={`${job.id}-${kind}.json`}>
              Download all of it
            </a>
            <CopyButton text={read.text} what={`the ${kind}`} />
          </p>
          <textarea
            readOnly
            class="code"
            aria-label={name}
            rows={Math.min(MOST_ROWS, rowsOf(read.text))}
            value={read.text}
          />
        </>
      )}
    </details>
  );
}

function rowsOf(text: string): number {
  return text.split('\n', MOST_ROWS + 1).length;
}

interface Read {
  /** The text, indented if it is whole. */
  text: string;
  /** Whether the text is whole; if not, it was cut at the wanted length. */
  isWhole: boolean;
}

/**
 * Reads a job's payload or result, up to a length; the rest is not even received.
 * @param path the path of the payload or result, without a slash at its beginning
 * @throws Error with a message for the person
 */
export async function readContents(path: string, mostBytes: number): Promise<Read> {
  const stop = new AbortController();
  const response = await request(path, { signal: stop.signal });
  const reader = response.body!.getReader();
  const decoder = new TextDecoder();
  let text = '';
  let length = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return { text: indented(text + decoder.decode()), isWhole: true };
    length += value.length;
    text += decoder.decode(value, { stream: true });
    if (length <= mostBytes) continue;
    stop.abort();
    return { text: text.slice(0, mostBytes), isWhole: false };
  }
}

function indented(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
