import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { reasonOf } from '../process/http.ts';
import { EXIT, UserError } from '../process/index.ts';
import { askQueue, type QueueTarget } from './ask-queue.ts';

interface UsageOptions extends QueueTarget {
  /** A month of UTC, `2026-11`. Left out, with `since` too: the present one. */
  month?: string;
  since?: string;
  until?: string;
  format: string;
}

/**
 * Prints usage and cost, a row a day, tenant, token, pool, model and mode.
 * @throws UserError if the queue refuses it, or goes away before the last row
 */
export async function runUsage({ month, since, until, format, ...target }: UsageOptions): Promise<number> {
  const period =
    since === undefined ? { month: month ?? new Date().toISOString().slice(0, 7) } : { since, month };
  const asked = Object.entries({ ...period, until, format }).filter((pair) => pair[1] !== undefined);
  const path = `/api/usage/export?${new URLSearchParams(asked as [string, string][])}`;
  const { body } = await askQueue(target, path, { scope: 'read' });
  try {
    await pipeline(Readable.fromWeb(body as never), process.stdout, { end: false });
  } catch (error) {
    // The reader of the rows has enough of them, such as `head`.
    if ((error as NodeJS.ErrnoException).code === 'EPIPE') return EXIT.ok;
    throw new UserError(
      `The queue went away before the last row (${reasonOf(error as Error)}), so the rows are not whole. Run the command again.`,
      EXIT.unexpected,
    );
  }
  return EXIT.ok;
}
