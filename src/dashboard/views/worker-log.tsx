import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { LogLine } from '../../protocol/telemetry.ts';
import { ApiFailure, ask } from '../api.ts';
import { timeZone } from '../clock.ts';
import * as format from '../format.ts';
import { repeat } from '../polled.ts';

type Line = LogLine & { number: number };

/** So many are in the document; the rest is at the API. */
const MOST_LINES = 500;
const REFRESH_MS = 2000;
/** px from the end at which it still counts as there. */
const NEAR_END = 24;

/** What the worker and its engine said last; it follows, unless it was scrolled up. */
export function WorkerLog({ workerId }: { workerId: string }) {
  const { lines, failure } = useLines(workerId);
  const [follows, setFollows] = useState(true);
  const box = useRef<HTMLOListElement>(null);
  useLayoutEffect(() => {
    if (follows && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [lines, follows]);
  const onScroll = () => {
    const { scrollTop, scrollHeight, clientHeight } = box.current!;
    setFollows(scrollHeight - scrollTop - clientHeight < NEAR_END);
  };
  return (
    <section aria-labelledby="log-title">
      <div class="tools">
        <h2 id="log-title">Log</h2>
        {!follows && (
          <button type="button" onClick={() => setFollows(true)}>
            Follow
          </button>
        )}
      </div>
      {lines.length > 0 ? (
        <ol class="log" ref={box} onScroll={onScroll}>
          {lines.map((line) => (
            <li key={line.number} class={line.level}>
              <time class="number">{format.exactTime(line.timestamp * 1000, timeZone.value)}</time>
              <span class="source">{line.source}</span>
              <span class="message">
                {line.level !== 'info' && <b>{line.level} </b>}
                {plain(line.message)}
              </span>
            </li>
          ))}
        </ol>
      ) : (
        <p class="notice">
          {failure?.message ?? (
            <>
              No lines have come. A worker sends them every 30 s, where <code>CASOLA_LOGS_URL</code> tells it
              to.
            </>
          )}
        </p>
      )}
    </section>
  );
}

/** The newest lines; after the first time only those that came since are asked for. */
function useLines(workerId: string): { lines: Line[]; failure: ApiFailure | null } {
  const [state, setState] = useState<{ lines: Line[]; failure: ApiFailure | null }>({
    lines: [],
    failure: null,
  });
  useEffect(() => {
    let lines: Line[] = [];
    return repeat(REFRESH_MS, async (signal) => {
      const after = lines.at(-1)?.number;
      const path = `api/workers/${encodeURIComponent(workerId)}/logs?limit=${MOST_LINES}`;
      try {
        const answer = await ask<{ logs: Line[] }>(after === undefined ? path : `${path}&after=${after}`, {
          signal,
        });
        if (answer.logs.length > 0) lines = [...lines, ...answer.logs].slice(-MOST_LINES);
        if (answer.logs.length > 0 || lines.length === 0) setState({ lines, failure: null });
      } catch (error) {
        if (error instanceof ApiFailure) setState({ lines, failure: error });
      }
    });
  }, [workerId]);
  return state;
}

/** Without the colours of a terminal. */
function plain(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what it is about
  return text.replaceAll(/\u001b\[[\d;?]*[a-zA-Z]/g, '');
}
