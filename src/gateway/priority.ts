import type { TokenEntry } from '../settings/token-entry.ts';
import { HttpError } from './errors.ts';

/** Of requests whose callers wait, and of jobs that name none. */
const USUAL = 0;
const HIGHEST = 1000;

/** What a caller may ask of the queue and of engines: no caller moves to the front by asking for it. */
export interface PriorityBound {
  /** Highest priority of its jobs. */
  highest: number;
  /** Of its token; null: no tokens are configured. */
  name: string | null;
}

/** Without tokens, and with the scope admin, any priority may be asked for, unless the token's entry says otherwise. */
export function priorityBound(entry: TokenEntry | null): PriorityBound {
  const isBound = entry !== null && !entry.scopes.includes('admin');
  return { highest: entry?.highest_priority ?? (isBound ? USUAL : HIGHEST), name: entry?.name ?? null };
}

/** What is wrong with a job's priority; null: nothing. */
export function priorityProblem(asked: number, { highest, name }: PriorityBound): HttpError | null {
  return asked <= highest ? null : denied(`priority: the token "${name}" may ask for ${highest} at most`);
}

/**
 * What is wrong with the priority that is asked of an engine; null: nothing.
 * @param value as the caller wrote it, in a header or a body: vLLM reads texts and fractions as numbers too
 */
export function enginePriorityProblem(value: unknown, { highest, name }: PriorityBound): HttpError | null {
  const asked = typeof value === 'string' ? Number(value.replaceAll('_', '')) : value;
  if (typeof asked !== 'number' || Number.isNaN(asked) || asked >= -highest) return null;
  return denied(
    `priority: of the engine, where the lowest number goes first, the token "${name}" may ask for ${0 - highest} at least`,
  );
}

function denied(problem: string): HttpError {
  const message = `${problem}. Its entry in the token file may allow more: "highest_priority".`;
  return new HttpError(403, message, 'priority_denied');
}
