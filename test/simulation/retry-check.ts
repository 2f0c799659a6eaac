import type { SessionShare } from '../../src/fleet/rpc.ts';
import { ELSEWHERE_WITHIN_MS, HEARD_WITHIN_MS } from '../../src/queue/dispatch/retries.ts';
import type { WaitingRequest } from '../../src/queue/rpc.ts';
import type { Oracle } from './oracle.ts';

/** A request that a gateway asks for again, as it was last asked. */
interface Retry {
  /** What the worker served that began the answer; undefined: nothing has begun, or it did not say. */
  identity: string | undefined;
  model: string | null;
  failedAt: readonly string[];
  askedAt: number;
  /** Its caller is turned away then. */
  slotBy: number;
}

/** What the check reads of a worker's frame. */
interface Told {
  instance?: { model_identity?: string | null };
  type: string;
  /** Of `register` alone. */
  worker_id?: string;
  job_id?: string;
  /** Attempts that a worker goes on with. */
  jobs?: readonly { job_id: string }[];
  slots_free?: number;
  awaits_turn?: true;
}

/** Says when a request is tried again where it failed, though another worker was idle, or the queue did not know yet. */
export class RetryCheck {
  readonly #oracle: Oracle;
  readonly #now: () => number;
  readonly #retries = new Map<string, Retry>();
  /** Attempts that workers have not told the end of: the worker by the job. */
  readonly #running = new Map<string, string>();
  /** What each worker serves, as it said when it registered. */
  readonly #identities = new Map<string, string | null | undefined>();
  /** Workers whose newest gauges say that they take more. */
  readonly #ready = new Set<string>();

  constructor(oracle: Oracle, now: () => number) {
    this.#oracle = oracle;
    this.#now = now;
  }

  asked(asked: WaitingRequest): void {
    const { job_id, model, earlier, moved } = asked;
    const failedAt = [...(earlier?.failed_at ?? []), ...(moved ? [moved.worker_id] : [])];
    const askedAt = this.#now();
    const slotWait = Math.max(asked.wait_for_slot_ms, asked.wait_for_worker_ms);
    const slotBy = askedAt + Math.min(slotWait, asked.deadline_ms ?? slotWait, asked.limit_ms ?? slotWait);
    this.#retries.set(job_id, { model, identity: moved?.model_identity, failedAt, askedAt, slotBy });
  }

  /** @param worker null: it has not registered */
  heard(worker: string | null, text: string): void {
    const frame = JSON.parse(text) as Told;
    if (frame.worker_id !== undefined) {
      this.#identities.set(frame.worker_id, frame.instance?.model_identity);
      return this.gaveUp(frame.worker_id);
    }
    if (worker === null) return;
    if (frame.type === 'load') {
      if ((frame.slots_free ?? 0) > 0 && !frame.awaits_turn) this.#ready.add(worker);
      else this.#ready.delete(worker);
    }
    // The queue answers a renewal with the attempts that are lost, whose slots are free then.
    const renewed = frame.type === 'renew' ? (frame.jobs ?? []) : [];
    const isEnd = /^job_(error|result|result_ref|release)$/.test(frame.type);
    for (const { job_id } of isEnd ? [{ job_id: frame.job_id! }] : renewed)
      if (this.#running.get(job_id) === worker) this.#running.delete(job_id);
  }

  /** A frame was written. @param sessions of all workers, as they are after it */
  sent(worker: string, text: string, sessions: () => readonly SessionShare[]): void {
    // It let a lease run out, and gets nothing until it is heard again.
    if (text.startsWith('{"type":"job_revoked"') && text.includes('"lease_lost"')) this.#ready.delete(worker);
    if (!text.startsWith('{"type":"job"')) return;
    const { job_id: jobId } = JSON.parse(text) as { job_id: string };
    const retry = this.#retries.get(jobId);
    const stillRuns = this.#running.get(jobId) === worker;
    this.#running.set(jobId, worker);
    if (!retry?.failedAt.includes(worker)) return;
    const passed = this.#now() - retry.askedAt;
    if (stillRuns && passed < HEARD_WITHIN_MS && retry.askedAt + HEARD_WITHIN_MS < retry.slotBy)
      this.#oracle.violated('a retry waits for the word of the worker', `${jobId} at ${worker}`);
    const idle = sessions().find((session) => this.#isIdle(session, retry));
    if (idle !== undefined && passed < ELSEWHERE_WITHIN_MS)
      this.#oracle.violated(
        'a retry goes elsewhere',
        `${jobId} was given to ${worker} again while ${idle.worker_id} was idle`,
      );
  }

  #isIdle({ worker_id, state, capacity, running, models, adapters }: SessionShare, retry: Retry): boolean {
    return (
      !retry.failedAt.includes(worker_id) &&
      state === 'ready' &&
      running === 0 &&
      capacity > 0 &&
      adapters === null &&
      this.#ready.has(worker_id) &&
      (retry.model === null || models.includes(retry.model)) &&
      // What has begun goes on between equals alone.
      (retry.identity === undefined || this.#identities.get(worker_id) === retry.identity)
    );
  }

  /** The queue does not wait for its word any more. */
  gaveUp(worker: string): void {
    this.#ready.delete(worker);
    for (const [job, by] of this.#running) if (by === worker) this.#running.delete(job);
  }
}
