import type { Ports } from '../store/ports.ts';

/** What only waiting jobs changed is written so much later, ms: a crash loses no more of it. */
const WITHIN_MS = 1000;
/** It goes with any commit that is made after so long, ms. */
const GOES_ALONG_AFTER_MS = 500;
/** Before it is tried again where it could not be written, ms. */
const AGAIN_AFTER_MS = 30_000;

/**
 * Numbers that are changed in memory and written with a commit: what a stored job changed in the commit of that job, so
 * that no restart counts twice or forgets. A waiting job makes no commit of its own: what it changed waits for the
 * next one, or for a second. A disk that is full must not end the object: what cannot be written stays in memory.
 */
export abstract class WriteBehind {
  protected readonly ports: Ports;
  readonly #what: string;
  /** The commit of a stored job is about to be made. */
  #hasStored = false;
  /** Epoch ms; null: nothing is to be written. */
  #dueAt: number | null = null;
  #isFailing = false;

  /** @param what for the log, in the plural */
  constructor(ports: Ports, what: string) {
    this.ports = ports;
    this.#what = what;
  }

  /** Writes all that has changed. What it wrote is undone when it throws. */
  protected abstract save(): void;

  /** `save` is done, or was undone. */
  protected abstract afterSave(isSaved: boolean): void;

  /** Something is to be written. @param isStored a stored job changed it */
  protected changed(isStored: boolean): void {
    this.#hasStored ||= isStored;
    this.#dueAt ??= this.ports.now() + WITHIN_MS;
  }

  /** Epoch ms at which a commit is wanted; null: all is written. */
  get dueAt(): number | null {
    return this.#dueAt;
  }

  /** Part of the commit that is about to be made. */
  beforeCommit(): void {
    const goesAlongAt = (this.#dueAt ?? Number.POSITIVE_INFINITY) - WITHIN_MS + GOES_ALONG_AFTER_MS;
    if (this.#hasStored || this.ports.now() >= goesAlongAt) this.write();
  }

  /** To be called where there is a commit. Never throws. */
  write(): void {
    if (this.#dueAt === null) return;
    const { undoable, log, now } = this.ports;
    const problem = undoable(() => this.save());
    if (problem !== null && !this.#isFailing) {
      log('error', `${this.#what} cannot be written; they are kept in memory`, { error: problem });
    }
    this.#hasStored = false;
    this.#isFailing = problem !== null;
    this.#dueAt = problem === null ? null : now() + AGAIN_AFTER_MS;
    this.afterSave(problem === null);
  }
}
