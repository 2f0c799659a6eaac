import { type AnswerPart, bounds, type PartialAnswer, type Timing } from '../../protocol/index.ts';
import type { Job, StoredJob } from '../job.ts';

type Attempt = Pick<StoredJob, 'id' | 'fence_token'>;

interface Known {
  fence: number;
  /** The parts reported so far, in order; empty if there was no room for them. */
  parts: AnswerPart[];
  bytes: number;
  /** The attempt's timing, as its first part reported it. */
  timing: Timing | undefined;
}

/**
 * The parts of unfinished answers that workers report with the renewals of stored jobs' leases: what is left when a
 * worker is lost (docs/moving.md). They are in memory alone, which costs no write; a worker reports all of them again
 * to a queue that has restarted.
 */
export class PartialAnswers {
  readonly #byJob = new Map<string, Known>();
  #bytes = 0;

  /** Adds a part. @returns false if parts before it are missing, so that the worker must report all of them again */
  add({ id, fence_token }: Attempt, part: AnswerPart, timing: Timing | undefined): boolean {
    if (part.after === 0) this.#begin(id, fence_token, timing);
    const known = this.#known({ id, fence_token });
    if (known === null) return false;
    const last = known.parts.at(-1);
    if (last === undefined && part.after > 0) return true;
    if (last !== undefined && part.after !== last.after + last.ids.length) return false;
    const bytes = bytesOf(part);
    if (this.#bytes + bytes > bounds.PARTIAL_ANSWERS_BYTES) this.#begin(id, fence_token, known.timing);
    else {
      known.parts.push(part);
      known.bytes += bytes;
      this.#bytes += bytes;
    }
    return true;
  }

  /** Returns the partial answer of an attempt; undefined if nothing was reported or kept. */
  of(attempt: Attempt): PartialAnswer | undefined {
    const { parts = [] } = this.#known(attempt) ?? {};
    const [first] = parts;
    if (first === undefined) return undefined;
    const hasLogprobs = parts.some(({ logprobs }) => logprobs !== null);
    return {
      ...(first.model_identity !== undefined && { model_identity: first.model_identity }),
      prompt_tokens: first.prompt_tokens,
      ids: parts.flatMap(({ ids }) => ids),
      role: first.role,
      text: parts.map(({ text }) => text).join(''),
      reasoning: parts.map(({ reasoning }) => reasoning).join(''),
      logprobs: hasLogprobs ? parts.flatMap(({ logprobs }) => logprobs ?? []) : null,
    };
  }

  /** Returns an attempt's timing, in the form that a settlement has; undefined if it was not reported. */
  timingOf(attempt: Attempt): Timing | undefined {
    return this.#known(attempt)?.timing;
  }

  /** Forgets a job's parts, since its attempt is over. */
  forget(id: string): void {
    this.#bytes -= this.#byJob.get(id)?.bytes ?? 0;
    this.#byJob.delete(id);
  }

  #begin(id: string, fence: number, timing: Timing | undefined): void {
    this.forget(id);
    this.#byJob.set(id, { fence, parts: [], bytes: 0, timing });
  }

  #known({ id, fence_token }: Attempt): Known | null {
    const known = this.#byJob.get(id);
    return known?.fence === fence_token ? known : null;
  }
}

/** Returns about how many bytes a part takes at most. */
function bytesOf({ ids, text, reasoning, logprobs }: AnswerPart): number {
  return (
    8 * ids.length +
    2 * (text.length + reasoning.length) +
    (logprobs === null ? 0 : JSON.stringify(logprobs).length)
  );
}

/** The partial answer that a stored job's next attempt goes on from (docs/moving.md). */
export interface KeptPartial {
  partial: PartialAnswer;
  /** The worker that made the partial answer. */
  worker_id: string | null;
  /** The reason why that worker did not finish the answer. */
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
