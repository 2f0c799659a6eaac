import type { Ports } from '../store/ports.ts';

/** Changes by waiting jobs alone are written within this many ms; a crash loses no more of them. */
const WITHIN_MS = 1000;
/** Changes that are this many ms old go with any commit that is made. */
const GOES_ALONG_AFTER_MS = 500;
/** A failed write is tried again after this many ms. */
const AGAIN_AFTER_MS = 30_000;

/**
 * Keeps numbers that change in memory and are written with a commit. Those of a stored job are written with the commit
 * of that job, so that a restart neither counts twice nor forgets. A waiting job makes no commit of its own: its
 * changes wait for the next commit, for a second at most. A full disk must not end the object: changes that cannot be
 * written stay in memory.
 */
export abstract class WriteBehind {
  protected readonly ports: Ports;
  readonly #what: string;
  /** Whether a stored job has changed something that its commit must write. */
  #hasStored = false;
  /** Epoch ms by which changes must be written; null if there are none. */
  #writeAt: number | null = null;
  #isFailing = false;

  /** @param what names the numbers in the log, in the plural */
  constructor(ports: Ports, what: string) {
    this.ports = ports;
    this.#what = what;
  }

  /** Writes all changes. When it throws, its writes are undone. */
  protected abstract save(): void;

  /** Runs after `save` is done or was undone. */
  protected abstract afterSave(isSaved: boolean): void;

  /** Notes that something is to be written. @param isStored whether a stored job changed it */
  protected changed(isStored: boolean): void {
    this.#hasStored ||= isStored;
    this.#writeAt ??= this.ports.now() + WITHIN_MS;
  }

  /** Epoch ms at which a commit is wanted; null if all is written. */
  get writeAt(): number | null {
    return this.#writeAt;
  }

  /** Writes what belongs into the commit that is about to be made. */
  beforeCommit(): void {
    const goesAlongAt = (this.#writeAt ?? Number.POSITIVE_INFINITY) - WITHIN_MS + GOES_ALONG_AFTER_MS;
    if (this.#hasStored || this.ports.now() >= goesAlongAt) this.write();
  }

  /** Writes the changes; to be called where there is a commit. Never throws. */
  write(): void {
    if (this.#writeAt === null) return;
    const { undoable, log, now } = this.ports;
    const problem = undoable(() => this.save());
    if (problem !== null && !this.#isFailing) {
      log('error', `${this.#what} cannot be written; they are kept in memory`, { error: problem });
    }
    this.#hasStored = false;
    this.#isFailing = problem !== null;
    this.#writeAt = problem === null ? null : now() + AGAIN_AFTER_MS;
    this.afterSave(problem === null);
  }
}
