interface CommitPorts {
  /** After the work of a batch, before its commit is made. */
  beforeCommit(): void;
  /** Runs it as one transaction: what it wrote is undone when it throws. */
  transaction<T>(work: () => T): T;
  /** After every batch of work. */
  done(): void;
  /** A call of the object to itself: it comes back after the events that were waiting when it was made. */
  roundTrip(): Promise<void>;
  /** Called once, at the first piece of work that throws. */
  failed(error: unknown): void;
}

/** A batch that still grows after so many round trips is done all the same. */
const MOST_ROUND_TRIPS = 16;

/**
 * The order in which a queue object works. What arrives while a commit is on its way to disk gathers in one batch
 * and is done, and committed, together.
 *
 * A batch is gathered by round trips, not by a timer: timers of workerd stand still for as long as the clock is
 * set back, and a round trip waits for the commit before it anyway.
 *
 * What leaves the object is deferred until the piece of work that sends it is through. Should that throw, nothing of it does, but what
 * it changed in memory stays, and memory and disk differ: no work is done on that memory any more. Whoever asked
 * hears the error; the others hear nothing until the object is reset, and ask again then.
 */
export class Commits {
  readonly #ports: CommitPorts;
  #batch: (() => void)[] = [];
  /** Effects of the piece at work; null between pieces. */
  #deferred: (() => void)[] | null = null;
  #hasFailed = false;

  constructor(ports: CommitPorts) {
    this.#ports = ports;
  }

  /** Does the work together with whatever else arrives until nothing more does: one commit for all of it. */
  together<T>(work: () => T): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#batch.push(() => this.#do(() => resolve(this.#ports.transaction(work)), reject));
      if (this.#batch.length === 1) void this.#gather();
    });
  }

  /** Work has gathered that is not done yet: what comes after it may not overtake it. */
  get isGathering(): boolean {
    return this.#batch.length > 0;
  }

  /** Does work that needs no commit, at once. */
  atOnce(work: () => void): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#do(() => resolve(work()), reject);
      this.#ports.done();
    });
  }

  /** Does something that leaves the object when the piece at work is through. */
  defer(effect: () => void): void {
    if (this.#deferred) this.#deferred.push(effect);
    else effect();
  }

  async #gather(): Promise<void> {
    try {
      for (let round = 0, before = 0; round < MOST_ROUND_TRIPS && this.#batch.length > before; round += 1) {
        before = this.#batch.length;
        await this.#ports.roundTrip();
      }
    } catch {
      // What has gathered so far is done without the rest.
    }
    const batch = this.#batch;
    this.#batch = [];
    for (const piece of batch) piece();
    this.#do(
      () => this.#ports.beforeCommit(),
      () => {},
    );
    this.#ports.done();
  }

  #do(work: () => void, reject: (error: unknown) => void): void {
    if (this.#hasFailed) return;
    const deferred: (() => void)[] = [];
    this.#deferred = deferred;
    try {
      work();
    } catch (error) {
      this.#hasFailed = true;
      reject(error);
      this.#ports.failed(error);
      return;
    } finally {
      this.#deferred = null;
    }
    for (const effect of deferred) effect();
  }
}
