import type { Ports } from '../store/ports.ts';

/** Changes by waiting jobs alone are written within this time, ms; a crash loses no more of them. */
const WITHIN_MS = 1000;
/** After this time they go with any commit that is made, ms. */
const GOES_ALONG_AFTER_MS = 500;
/** Until a write that failed is tried again, ms. */
const AGAIN_AFTER_MS = 30_000;

/**
 * Numbers that change in memory and are written with a commit: a stored job's with the commit of that job, so that a
 * restart neither counts twice nor forgets. A waiting job makes no commit of its own: its changes wait for the next
 * commit, for a second at most. A full disk must not end the object: changes that cannot be written stay in memory.
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

  /** Writes all changes. When it throws, its writes are undone. */
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
