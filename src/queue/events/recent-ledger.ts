import type { Timing } from '../../protocol/index.ts';
import { iso } from '../attempts/view.ts';
import { type LedgerView, maySee, type Viewer } from '../rpc.ts';
import type { TransientJob } from '../state/memory-jobs.ts';

/** Of the newest calls; a busy gateway makes as many in seconds, and each takes about a kilobyte. */
const MOST_CALLS = 1000;
/** A call that is released again and again keeps its first steps. */
const MOST_STEPS = 100;

/** What is kept of a worker's words, characters. */
const MOST_DETAIL = 4096;

/** The steps of ledger.ts that a call can take, and `refused`: why it got no worker. */
export type CallStep =
  | 'submitted'
  | 'dispatched'
  | 'started'
  | 'first_token'
  | 'released'
  | 'attempt_failed'
  | 'settled'
  | 'cancelled'
  | 'refused';

/** `at` in epoch ms. */
type Step = Omit<LedgerView['steps'][number], 'at'> & { at: number };

interface Recent {
  tenant: string | null;
  steps: Step[];
}

/**
 * What happened to the newest jobs whose callers waited, step by step, for whoever asks where the time of a
 * request went. In memory, like those jobs themselves: it costs no commit and is gone with the object.
 */
export class CallLedgers {
  readonly #now: () => number;
  /** By job id, the oldest first. */
  readonly #requests = new Map<string, Recent>();

  constructor(now: () => number) {
    this.#now = now;
  }

  /** @param at epoch ms, where it is not now */
  record(job: TransientJob, step: CallStep, detail: string | null = null, at: number = this.#now()): void {
    const steps = this.#stepsOf(job);
    if (steps.length >= MOST_STEPS) return;
    const attempt = steps.filter((earlier) => earlier.step === 'dispatched').length;
    steps.push({
      at,
      step,
      attempt: step === 'dispatched' ? attempt + 1 : attempt,
      fence_token: job.fence_token,
      worker_id: job.worker_id,
      detail: detail?.slice(0, MOST_DETAIL) ?? null,
    });
  }

  /** What the settlement tells of the attempt's time. */
  recordTiming(job: TransientJob, { started_ms, first_token_ms }: Timing = {}): void {
    const dispatch = this.#requests.get(job.id)?.steps.findLast(({ step }) => step === 'dispatched');
    if (!dispatch) return;
    const at = (ms: number) => Math.min(this.#now(), Math.round(dispatch.at + ms));
    if (started_ms !== undefined) this.record(job, 'started', null, at(started_ms));
    if (first_token_ms !== undefined) this.record(job, 'first_token', null, at(first_token_ms));
  }

  has(jobId: string): boolean {
    return this.#requests.has(jobId);
  }

  /** Null: no such call, none to this viewer, or too long ago. */
  of(jobId: string, viewer: Viewer = null): LedgerView | null {
    const recent = this.#requests.get(jobId);
    if (!recent || !maySee(viewer, recent.tenant)) return null;
    return { job_id: jobId, steps: recent.steps.map((step) => ({ ...step, at: iso(step.at) })) };
  }

  #stepsOf(job: TransientJob): Step[] {
    const known = this.#requests.get(job.id);
    if (known) return known.steps;
    const [oldest] = this.#requests.keys();
    if (this.#requests.size >= MOST_CALLS && oldest !== undefined) this.#requests.delete(oldest);
    const recent: Recent = { tenant: job.call.tenant ?? null, steps: [] };
    this.#requests.set(job.id, recent);
    return recent.steps;
  }
}
