import { bounds, type PartialAnswer } from '../../protocol/index.ts';
import type { Job } from '../job.ts';

/** What a stored job's next attempt goes on from (docs/moving.md). */
export interface KeptPartial {
  partial: PartialAnswer;
  /** The worker that made the partial answer. */
  worker_id: string | null;
  /** Why that worker did not finish the answer. */
  why: string;
}

/** The most characters kept of the reason, which the ledger shows. */
const MOST_CHARACTERS = 1000;

/** Returns what the row is to keep; null if there is nothing, so that what an earlier attempt left stays. */
export function keptText(job: Job, partial: PartialAnswer | undefined, why: string): string | null {
  if (partial === undefined || job.mode !== 'stored') return null;
  const kept: KeptPartial = { partial, worker_id: job.worker_id, why: why.slice(0, MOST_CHARACTERS) };
  const text = JSON.stringify(kept);
  return text.length > bounds.PARTIAL_ANSWER_CHARACTERS + 2 * MOST_CHARACTERS ? null : text;
}

/** Describes, for the ledger, where the next attempt goes on. */
export function movedFrom({ partial, worker_id, why }: KeptPartial): string {
  return `from ${worker_id} at token ${partial.ids.length - partial.prompt_tokens}: ${why}`;
}
