import { useEffect, useState } from 'preact/hooks';
import type { LogLine } from '../../protocol/telemetry.ts';
import { ApiFailure, ask } from '../api.ts';
import { repeat } from '../polled.ts';

export type Line = LogLine & { number: number };

/** The most lines: as many as the queue keeps of a worker. */
const MOST_LINES = 2000;
const PAGE_LINES = 1000;
const REFRESH_MS = 2000;

/** The names of levels in the address, each with the levels that it shows. */
export const LEVELS: Record<string, { name: string; levels: readonly Line['level'][] }> = {
  warning: { name: 'Warnings and errors', levels: ['warning', 'error'] },
  error: { name: 'Errors', levels: ['error'] },
};

export interface Log {
  /** The lines in order; null before the first answer. */
  lines: readonly Line[] | null;
  failure: ApiFailure | null;
}

/** Returns all lines that are kept of a worker; after the first time only newer ones are read. */
export function useLog(workerId: string): Log {
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
export function matching(lines: readonly Line[], text: string, level: string): readonly Line[] {
  const wanted = text.toLowerCase();
  const levels = LEVELS[level]?.levels;
  if (!wanted && !levels) return lines;
  return lines.filter(
    (line) =>
      (!levels || levels.includes(line.level)) && (!wanted || line.message.toLowerCase().includes(wanted)),
  );
}

/** Returns a line of the file that is downloaded: `2026-11-25T03:04:05.000Z error vllm message`. */
export function lineOfFile({ timestamp, level, source, message }: Line): string {
  return `${new Date(timestamp * 1000).toISOString()} ${level} ${source} ${message}\n`;
}

/** Removes the colours of a terminal. */
function plain(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what it is about
  return text.replaceAll(/\u001b\[[\d;?]*[a-zA-Z]/g, '');
}
