import type { Job } from '../job.ts';
import type { Facts, JobEvent, JobStep, OtherEvent, Told } from './event.ts';

/**
 * A feature that is derived from what happens to jobs: a ledger, counts, usage, webhooks. The road of a job calls
 * `emit` and knows no projection; `registerProjections` (projections/register.ts) names them all. What a projection
 * writes while it handles an event is in the commit of that event.
 */
export interface Projection {
  /** Handles what happens to a job before the job changes: it, its slot and its worker stand as in the attempt. */
  on?(event: JobEvent): void;
  /** Handles what happened to a job once the job has changed. */
  after?(event: JobEvent): void;
  /** Handles what happened to a worker, or to an attempt whose job stays as it is. */
  onOther?(event: OtherEvent): void;
  /** Epoch ms at which `due` may have something to do, never too late; null if there is nothing. */
  readonly dueAt?: number | null;
  /** Does what is due now. */
  due?(): void;
  /** Epoch ms at which a commit is wanted for what is kept in memory; null if all is written. */
  readonly writeAt?: number | null;
  /** Writes what belongs into the commit that is about to be made. */
  beforeCommit?(): void;
  /** Writes all that is kept in memory, within a commit. */
  write?(): void;
  /** Says whether the attempt is known to have ended, though no job says so. */
  hasEnded?(fence: number): boolean;
  /** Calls `effect` when what is kept of the attempt is on disk: at once if it is, or if there is nothing of it. */
  whenWritten?(fence: number, effect: () => void): void;
  /** Forgets jobs that settled long ago and are about to be deleted. */
  forget?(jobs: readonly { seq: number }[]): void;
  /** Forgets what could quote the contents of a settled job, which are erased. */
  erase?(job: { seq: number; id: string }): void;
}

type Kind<P extends Projection> = abstract new (...given: never[]) => P;

/** All projections of a queue, in the order in which they handle an event. */
export class Projections {
  readonly #byKind = new Map<Kind<Projection>, Projection>();
  readonly #all: Projection[] = [];
  // What is asked for every event is asked only of those that have it.
  readonly #on: Projection[] = [];
  readonly #after: Projection[] = [];
  readonly #timed: Projection[] = [];
  readonly #delaying: Projection[] = [];

  add(projection: Projection): void {
    this.#byKind.set(projection.constructor as Kind<Projection>, projection);
    this.#all.push(projection);
    if (projection.on) this.#on.push(projection);
    if (projection.after) this.#after.push(projection);
    if ('dueAt' in projection || 'writeAt' in projection) this.#timed.push(projection);
    if (projection.whenWritten) this.#delaying.push(projection);
  }

  /** Returns the projection of this class, for code that shows its data. @throws if none is registered */
  get<P extends Projection>(kind: Kind<P>): P {
    const projection = this.#byKind.get(kind);
    if (!projection) throw new Error(`no projection is registered: ${kind.name}`);
    return projection as P;
  }

  /** Tells what happens to a job, makes its change, and tells that the job has changed. */
  on(event: JobEvent, change?: () => void): void {
    for (const projection of this.#on) projection.on!(event);
    change?.();
    for (const projection of this.#after) projection.after!(event);
  }

  onOther(event: OtherEvent): void {
    for (const projection of this.#all) projection.onOther?.(event);
  }

  /** Returns the epoch ms at which `runDue` or a write is wanted; null if neither is. */
  next(): number | null {
    let next: number | null = null;
    for (const { dueAt = null, writeAt = null } of this.#timed) next = sooner(next, sooner(dueAt, writeAt));
    return next;
  }

  runDue(): void {
    for (const projection of this.#all) projection.due?.();
  }

  /** Says whether a write that waited for another commit now needs one of its own. @param now epoch ms */
  isWriteDue(now: number): boolean {
    return this.#timed.some(({ writeAt = null }) => writeAt !== null && writeAt <= now);
  }

  beforeCommit(): void {
    for (const projection of this.#all) projection.beforeCommit?.();
  }

  write(): void {
    for (const projection of this.#all) projection.write?.();
  }

  hasEnded(fence: number): boolean {
    return this.#all.some((projection) => projection.hasEnded?.(fence) === true);
  }

  whenWritten(fence: number, effect: () => void): void {
    let next = effect;
    for (const projection of this.#delaying) {
      const then = next;
      next = () => projection.whenWritten!(fence, then);
    }
    next();
  }

  forget(jobs: readonly { seq: number }[]): void {
    for (const projection of this.#all) projection.forget?.(jobs);
  }

  erase(job: { seq: number; id: string }): void {
    for (const projection of this.#all) projection.erase?.(job);
  }
}

/** Returns the earlier of two times, of which null is never. */
export function sooner(one: number | null, other: number | null): number | null {
  if (one === null || other === null) return one ?? other;
  return Math.min(one, other);
}

/** The two members of the core that `emit` needs to pass events on. */
interface Emitter {
  projections: Projections;
  now(): number;
}

/**
 * Tells all projections what happens to a job. It is the only thing that the road of a job calls besides its own rules.
 * @param change what the event does to the job: it runs when all projections have seen the job as it was
 */
export function emit(
  { projections, now }: Emitter,
  job: Job,
  step: JobStep,
  detail: string | null = null,
  told: Told & Facts = {},
  change?: () => void,
): void {
  // Every event has all fields, in one order: engines read objects of one shape several times as fast as of many.
  const event: JobEvent = {
    job,
    step,
    detail,
    at: now(),
    timing: told.timing,
    usage: told.usage,
    partial: told.partial,
    ending: told.ending,
    by: told.by,
    failure: told.failure,
    isRepeated: told.isRepeated,
    kept: told.kept,
    replaced: told.replaced,
    reason: told.reason,
    refusal: told.refusal,
    firstTokenAt: told.firstTokenAt,
    isFirst: told.isFirst,
    cached: told.cached,
  };
  projections.on(event, change);
}
