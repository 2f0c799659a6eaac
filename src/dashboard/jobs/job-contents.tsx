import { useState } from 'preact/hooks';
import type { JobView } from '../../protocol/jobs.ts';
import { request } from '../api.ts';
import { Problem } from '../controls/action.tsx';
import { CopyButton } from '../controls/copy-button.tsx';
import { bytes } from '../format.ts';
import { at } from '../router.ts';

/** More of a payload or a result is not shown: tabs have died of that. */
const MOST_SHOWN_BYTES = 65_536;

/** Lines in view; the rest scrolls. */
const MOST_ROWS = 24;

type Job = Pick<JobView, 'id' | 'state'>;

/** What was submitted and what came of it, folded: it is read only when it is opened. */
export function JobContents({ job }: { job: Job }) {
  return (
    <>
      <h2>Contents</h2>
      <Content job={job} kind="payload" name="Payload" />
      {job.state === 'succeeded' && <Content job={job} kind="result" name="Result" />}
    </>
  );
}

interface Read {
  text: string;
  isWhole: boolean;
}

function Content({ job, kind, name }: { job: Job; kind: 'payload' | 'result'; name: string }) {
  const [read, setRead] = useState<Read | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const path = `api/jobs/${encodeURIComponent(job.id)}/${kind}`;
  const open = (event: Event) => {
    if (!(event.currentTarget as HTMLDetailsElement).open || read) return;
    readBeginning(path).then(setRead, (error: Error) => setProblem(error.message));
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
            aria-label={name}
            rows={Math.min(MOST_ROWS, rowsOf(read.text))}
            value={read.text}
          />
        </>
      )}
    </details>
  );
}

/** As much as is shown; the rest is not even received. @throws Error with what to tell */
async function readBeginning(path: string): Promise<Read> {
  const stop = new AbortController();
  const response = await request(path, { signal: stop.signal });
  if (!response.ok) {
    const body = (await response.json().catch(() => null)) as { error?: { message?: string } } | null;
    throw new Error(body?.error?.message ?? `The gateway answered ${response.status}.`);
  }
  const reader = response.body!.getReader();
  const decoder = new TextDecoder();
  let text = '';
  let length = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return { text: indented(text + decoder.decode()), isWhole: true };
    length += value.length;
    text += decoder.decode(value, { stream: true });
    if (length <= MOST_SHOWN_BYTES) continue;
    stop.abort();
    return { text: text.slice(0, MOST_SHOWN_BYTES), isWhole: false };
  }
}

function rowsOf(text: string): number {
  return text.split('\n', MOST_ROWS + 1).length;
}

function indented(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
