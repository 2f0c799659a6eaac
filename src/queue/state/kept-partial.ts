import { limits, type PartialAnswer } from '../../protocol/index.ts';
import type { Job } from './job.ts';

/** What a stored job's next attempt goes on from (docs/moving.md). */
export interface KeptPartial {
  partial: PartialAnswer;
  /** Who made it. */
  worker_id: string | null;
  /** Why it was not finished there. */
  why: string;
}

/** Of the reason, in the ledger. */
const MOST_CHARACTERS = 1000;

/** As the row keeps it; null: there is nothing to keep, and what an earlier attempt left stays. */
export function keptText(job: Job, partial: PartialAnswer | undefined, why: string): string | null {
  if (partial === undefined || job.mode !== 'stored') return null;
  const kept: KeptPartial = { partial, worker_id: job.worker_id, why: why.slice(0, MOST_CHARACTERS) };
  const text = JSON.stringify(kept);
  return text.length > limits.PARTIAL_ANSWER_CHARACTERS + 2 * MOST_CHARACTERS ? null : text;
}

/** For the ledger. */
export function movedFrom({ partial, worker_id, why }: KeptPartial): string {
  return `from ${worker_id} at token ${partial.ids.length - partial.prompt_tokens}: ${why}`;
}
