import type { CallAnswer, TransientCall } from '../rpc.ts';
import type { Worker } from './live-fleet.ts';
import { add } from './pending.ts';
import { Soonest } from './soonest.ts';

/** Bytes lie outside the runtime's heap, which strings would fill: it ends at 1.4 GB whatever the machine has. */
type Payload = Uint8Array<ArrayBuffer>;

/**
 * Jobs whose caller waits. They live in memory: a caller that waits over a connection is told when the
 * queue restarts, and asks again with the same id, so a row would cost a commit and save nothing.
 *
 * States: `pending` (no slot yet) → `leased` (dispatched) → gone (settled, cancelled, broken).
 */
export interface TransientJob {
  id: string;
  call: TransientCall & { payload: Payload };
  state: 'pending' | 'leased';
  priority: number;
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
  /** Whether it was let in among those that wait. */
  is_admitted: boolean;
  /** An attempt that its caller lost and that its worker may have still: it ends when this one goes elsewhere. */
  older: { worker_id: string; fence_token: number } | null;
}

/** A job that waits, and its place among all that do. */
interface Place {
  job: TransientJob;
  order: number;
}

export class Transients {
  readonly #jobs = new Map<string, TransientJob>();
  /** Waiting jobs by the model that they wait for; of each the highest priority first, then the oldest. */
  readonly #waiting = new Map<string | null, Place[]>();
  readonly #waitingFor = new Map<string, number>();
  readonly #waitingOf = new Map<string, number>();
  readonly #waitingBytesOf = new Map<string, number>();
  #waitingBytes = 0;
  /** Epoch ms at which the next waiting job is to be refused. */
  readonly nextRefusal = new Soonest();
  #size = 0;
  #order = 0;

  get(id: string): TransientJob | null {
    return this.#jobs.get(id) ?? null;
  }

  all(): IterableIterator<TransientJob> {
    return this.#jobs.values();
  }

  /** How many wait. */
  get waiting(): number {
    return this.#size;
  }

  isWaiting(job: TransientJob): boolean {
    return job.state === 'pending' && this.#jobs.get(job.id) === job;
  }

  /** Waiting jobs by the model that they wait for; null: any. */
  *waitingByModel(): Generator<[model: string | null, jobs: TransientJob[]]> {
    for (const [model, places] of this.#waiting) yield [model, places.map(({ job }) => job)];
  }

  /** The first job in line that this worker serves and has not declined. */
  nextFor({ session, models, declined }: Worker): TransientJob | null {
    if (this.#size === 0) return null;
    let first: Place | null = null;
    for (const model of [null, session.config_id, ...models]) {
      const place = this.#waiting.get(model)?.find(({ job }) => !declined.has(job.id));
      if (place && (first === null || goesBefore(place, first))) first = place;
    }
    return first?.job ?? null;
  }

  /** How many wait for a slot of this config. */
  waitingFor(configId: string): number {
    return this.#waitingFor.get(configId) ?? 0;
  }

  /** How many of this tenant wait, for whatever. */
  waitingOf(tenant: string): number {
    return this.#waitingOf.get(tenant) ?? 0;
  }

  /** Bytes of all payloads that wait. */
  get waitingBytes(): number {
    return this.#waitingBytes;
  }

  /** Bytes of this tenant's payloads that wait. */
  waitingBytesOf(tenant: string): number {
    return this.#waitingBytesOf.get(tenant) ?? 0;
  }

  get size(): number {
    return this.#jobs.size;
  }

  add(job: TransientJob): void {
    this.#jobs.set(job.id, job);
    if (job.state !== 'pending') return;
    const place = { job, order: ++this.#order };
    const line = this.#waiting.get(job.call.model) ?? [];
    if (line.length === 0) this.#waiting.set(job.call.model, line);
    let at = line.length;
    while (at > 0 && goesBefore(place, line[at - 1]!)) at -= 1;
    line.splice(at, 0, place);
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
    const line = this.#waiting.get(job.call.model) ?? [];
    const at = line.findIndex((place) => place.job === job);
    if (at < 0) return;
    line.splice(at, 1);
    if (line.length === 0) this.#waiting.delete(job.call.model);
    this.#count(job, -1);
  }

  #count({ waits_for, call }: TransientJob, change: number): void {
    this.#size += change;
    add(this.#waitingFor, waits_for, change);
    const bytes = change * call.payload.byteLength;
    this.#waitingBytes += bytes;
    if (call.tenant == null) return;
    add(this.#waitingOf, call.tenant, change);
    add(this.#waitingBytesOf, call.tenant, bytes);
  }
}

function goesBefore(one: Place, other: Place): boolean {
  return one.job.priority === other.job.priority
    ? one.order < other.order
    : one.job.priority > other.job.priority;
}
