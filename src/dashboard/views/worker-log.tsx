import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { LogLine } from '../../protocol/telemetry.ts';
import * as format from '../../show/format.ts';
import { ApiFailure, ask } from '../api.ts';
import { timeZone } from '../clock.ts';
import { download } from '../controls/action.tsx';
import { ownFailure, repeat } from '../polled.ts';
import { filter, query } from '../router.ts';

/** The most lines in the document; all are searched and downloaded. */
const MOST_SHOWN = 500;
/** Within this many px of its end, the log counts as scrolled to the end. */
const NEAR_END = 24;

/** Shows the stored log lines of a worker and its engine; it follows new lines, unless the user has scrolled up. */
export function WorkerLog({ workerId }: { workerId: string }) {
  const { lines, failure } = useLog(workerId);
  const text = query.value.get('log') ?? '';
  const level = query.value.get('level') ?? '';
  const found = lines && matching(lines, text, level);
  const [follows, setFollows] = useState(true);
  const box = useRef<HTMLElement>(null);
  const top = useRef(0);
  useLayoutEffect(() => {
    if (!follows || !box.current) return;
    box.current.scrollTop = box.current.scrollHeight;
    // The user may scroll up before the browser tells of this scroll, and tells then of both at once.
    top.current = box.current.scrollTop;
  }, [found?.at(-1), found?.length, follows]);
  const onScroll = () => {
    const { scrollTop, scrollHeight, clientHeight } = box.current!;
    if (scrollHeight - scrollTop - clientHeight < NEAR_END) setFollows(true);
    else if (scrollTop < top.current) setFollows(false);
    top.current = scrollTop;
  };
  const earlier = Math.max(0, (found?.length ?? 0) - MOST_SHOWN);
  if (lines?.length === 0 || (failure && !lines)) {
    return (
      <section aria-labelledby="log-title">
        <h2 id="log-title">Log</h2>
        <p class="notice">
          {failure ? (
            (ownFailure(failure) ?? 'Asking …')
          ) : (
            <>
              No lines have arrived. A worker sends them every 30 s if <code>CASOLA_LOGS_URL</code> is set.
            </>
          )}
        </p>
      </section>
    );
  }
  return (
    <section aria-labelledby="log-title">
      <div class="tools log-tools">
        <h2 id="log-title">Log</h2>
        <input
          type="search"
          aria-label="Find in the log"
          placeholder="Find in the log"
          spellcheck={false}
          value={text}
          onInput={(event) => filter({ log: event.currentTarget.value })}
        />
        <select
          aria-label="Levels"
          value={level}
          onChange={(event) => filter({ level: event.currentTarget.value })}
        >
          <option value="">All levels</option>
          {Object.entries(LEVELS).map(([key, { name }]) => (
            <option key={key} value={key}>
              {name}
            </option>
          ))}
        </select>
        <button type="button" aria-pressed={follows} onClick={() => setFollows(!follows)}>
          Follow
        </button>
        <button
          type="button"
          disabled={!found || found.length === 0}
          onClick={() => download(`${workerId}.log`, found!.map(lineOfFile).join(''))}
        >
          Download
        </button>
        <span class="number dim">
          {lines && found && found !== lines && `${format.count(found.length)} of `}
          {lines && format.plural(lines.length, 'line')}
        </span>
      </div>
      <section
        class="log"
        aria-label="Lines of the log"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: the keys scroll it
        tabIndex={0}
        ref={box}
        onScroll={onScroll}
      >
        {found?.length === 0 && <p class="dim">No line fits.</p>}
        {earlier > 0 && (
          <p class="dim">{format.plural(earlier, 'earlier line')}: look for words, or download all.</p>
        )}
        <ol>
          {found?.slice(earlier).map((line) => (
            <LineOfLog key={line.number} line={line} text={text} />
          ))}
        </ol>
      </section>
    </section>
  );
}

function LineOfLog({ line: { level, source, message, timestamp }, text }: { line: Line; text: string }) {
  return (
    <li class={level}>
      <time class="number">{format.exactTime(timestamp * 1000, timeZone.value)}</time>
      <span class="source">{source}</span>
      <span class="message">
        {level !== 'info' && <b>{level} </b>}
        <Found message={message} text={text} />
      </span>
    </li>
  );
}

/** Shows a message with the searched text marked in it. */
function Found({ message, text }: { message: string; text: string }) {
  if (text === '') return <>{message}</>;
  const [where, wanted] = [message.toLowerCase(), text.toLowerCase()];
  const parts = [];
  let from = 0;
  for (let at = where.indexOf(wanted); at !== -1; at = where.indexOf(wanted, from)) {
    parts.push(message.slice(from, at), <mark key={at}>{message.slice(at, at + text.length)}</mark>);
    from = at + text.length;
  }
  return (
    <>
      {parts}
      {message.slice(from)}
    </>
  );
}

type Line = LogLine & { number: number };

/** The most lines, as many as the queue stores for a worker. */
const MOST_LINES = 2000;
const PAGE_LINES = 1000;
const REFRESH_MS = 2000;

/** The names of levels in the address, each with the levels that it shows. */
const LEVELS: Record<string, { name: string; levels: readonly Line['level'][] }> = {
  warning: { name: 'Warnings and errors', levels: ['warning', 'error'] },
  error: { name: 'Errors', levels: ['error'] },
};

interface Log {
  /** The lines in order; null: there is no answer yet. */
  lines: readonly Line[] | null;
  failure: ApiFailure | null;
}

/** Returns all stored lines of a worker; after the first read only newer ones are read. */
function useLog(workerId: string): Log {
  const [log, setLog] = useState<Log>({ lines: null, failure: null });
  useEffect(() => {
    let lines: Line[] = [];
    let hasOlder = true;
    const path = `api/workers/${encodeURIComponent(workerId)}/logs?limit=${PAGE_LINES}`;
    const show = (changed: Line[]) => {
      lines = changed.slice(-MOST_LINES);
      setLog({ lines, failure: null });
    };
    return repeat(REFRESH_MS, async (signal) => {
      const page = async (more: string) => {
        const { logs, has_more } = await ask<{ logs: Line[]; has_more: boolean }>(path + more, { signal });
        return { logs: logs.map((line) => ({ ...line, message: plain(line.message) })), has_more };
      };
      try {
        const newest = lines.at(-1);
        const came = await page(newest ? `&after=${newest.number}` : '');
        if (!newest) hasOlder = came.has_more;
        if (came.logs.length > 0 || !newest) show([...lines, ...came.logs]);
        while (hasOlder && lines.length < MOST_LINES) {
          const older = await page(`&before=${lines[0]!.number}`);
          hasOlder = older.has_more;
          show([...older.logs, ...lines]);
        }
      } catch (error) {
        if (error instanceof ApiFailure) setLog({ lines: lines.length > 0 ? lines : null, failure: error });
      }
    });
  }, [workerId]);
  return log;
}

/**
 * Returns the lines of a level that contain a text, whatever its case.
 * @param level one of LEVELS; any other means all
 */
function matching(lines: readonly Line[], text: string, level: string): readonly Line[] {
  const wanted = text.toLowerCase();
  const levels = LEVELS[level]?.levels;
  if (!wanted && !levels) return lines;
  return lines.filter(
    (line) =>
      (!levels || levels.includes(line.level)) && (!wanted || line.message.toLowerCase().includes(wanted)),
  );
}

/** Returns a line of the file that is downloaded: `2026-11-25T03:04:05.000Z error vllm message`. */
function lineOfFile({ timestamp, level, source, message }: Line): string {
  return `${new Date(timestamp * 1000).toISOString()} ${level} ${source} ${message}\n`;
}

/** Removes the colours of a terminal. */
function plain(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what it is about
  return text.replaceAll(/\u001b\[[\d;?]*[a-zA-Z]/g, '');
}
