import type { CallAnswer, TransientCall } from './calls.ts';
import { add } from './pending.ts';

/**
 * Jobs whose caller waits. They live in memory: a caller that waits over a connection is told when the
 * queue restarts, and asks again with the same id, so a row would cost a commit and save nothing.
 *
 * States: `pending` (no slot yet) → `leased` (dispatched) → gone (settled, cancelled, broken).
 */
export interface TransientJob {
  id: string;
  call: TransientCall;
  state: 'pending' | 'leased';
  /** Config whose waiting callers it is counted among. */
  waits_for: string;
  /** Epoch ms; orders it among the persisted jobs of the same priority. */
  created_at: number;
  /** Epoch ms at which a waiting job is refused when no worker exists, and when none is free. */
  worker_by: number;
  slot_by: number;
  fence_token: number;
  worker_id: string | null;
  /** The key to its payload, where that goes by reference. */
  file_key?: string;
  /** Tells the gateway; null once told (a relayed answer is told at dispatch). */
  answer: ((answer: CallAnswer) => void) | null;
  /** Epoch ms when its worker's socket closed; null while connected. */
  orphaned_at: number | null;
}

export class Transients {
  readonly #jobs = new Map<string, TransientJob>();
  /** Waiting jobs, highest priority first, then oldest. */
  readonly #waiting: TransientJob[] = [];
  readonly #waitingFor = new Map<string, number>();
  readonly #waitingOf = new Map<string, number>();

  get(id: string): TransientJob | null {
    return this.#jobs.get(id) ?? null;
  }

  all(): IterableIterator<TransientJob> {
    return this.#jobs.values();
  }

  waiting(): readonly TransientJob[] {
    return this.#waiting;
  }

  /** How many wait for a slot of this config. */
  waitingFor(configId: string): number {
    return this.#waitingFor.get(configId) ?? 0;
  }

  /** How many of this tenant wait, for whatever. */
  waitingOf(tenant: string): number {
    return this.#waitingOf.get(tenant) ?? 0;
  }

  get size(): number {
    return this.#jobs.size;
  }

  add(job: TransientJob): void {
    this.#jobs.set(job.id, job);
    if (job.state !== 'pending') return;
    let at = this.#waiting.length;
    while (at > 0 && this.#waiting[at - 1]!.call.priority < job.call.priority) at -= 1;
    this.#waiting.splice(at, 0, job);
    this.#count(job, 1);
  }

  /** `pending` → `leased`. */
  dispatched(job: TransientJob, fenceToken: number, workerId: string): void {
    this.#unqueue(job);
    job.state = 'leased';
    job.fence_token = fenceToken;
    job.worker_id = workerId;
  }

  remove(job: TransientJob): void {
    this.#unqueue(job);
    if (this.#jobs.get(job.id) === job) this.#jobs.delete(job.id);
  }

  #unqueue(job: TransientJob): void {
    if (job.state !== 'pending') return;
    const at = this.#waiting.indexOf(job);
    if (at < 0) return;
    this.#waiting.splice(at, 1);
    this.#count(job, -1);
  }

  #count({ waits_for, call }: TransientJob, change: number): void {
    add(this.#waitingFor, waits_for, change);
    if (call.tenant != null) add(this.#waitingOf, call.tenant, change);
  }
}
