interface CommitPorts {
  /** Runs a batch as one transaction: what it wrote is undone when it throws. */
  transaction(work: () => void): void;
  /** The last work of a batch. */
  beforeCommit(): void;
  /** After every batch of work. */
  done(): void;
  /** A call of the object to itself: it comes back after the events that were waiting when it was made. */
  roundTrip(): Promise<void>;
  /** Called once, at the first piece of work that throws. */
  failed(error: unknown): void;
}

/** A batch that still grows after so many round trips is done all the same. */
const MOST_ROUND_TRIPS = 16;

interface Piece {
  work(): unknown;
  resolve(value: unknown): void;
  reject(error: unknown): void;
}

/**
 * The order in which a queue object works. What arrives while a commit is on its way to disk gathers in one batch
 * and is done, and committed, together.
 *
 * A batch is gathered by round trips, not by a timer: timers of workerd stand still for as long as the clock is
 * set back, and a round trip waits for the commit before it anyway.
 *
 * What leaves the object is deferred until the batch is through: what is said to one peer goes in one message then.
 * Should a piece of work throw, nothing of its batch leaves and nothing of it is written, but what it changed in memory
 * stays, and memory and disk differ: no work is done on that memory any more. Whoever asked for that piece hears the
 * error; the others hear nothing until the object is reset, and ask again then.
 */
export class Commits {
  readonly #ports: CommitPorts;
  #batch: Piece[] = [];
  /** Effects of the batch at work; null between batches. */
  #deferred: (() => void)[] | null = null;
  #hasFailed = false;

  constructor(ports: CommitPorts) {
    this.#ports = ports;
  }

  /** Does the work together with whatever else arrives until nothing more does: one commit for all of it. */
  together<T>(work: () => T): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#batch.push({ work, resolve: resolve as Piece['resolve'], reject });
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
      const piece = { work, resolve: () => resolve(), reject };
      this.#do((run) => run(piece));
      this.#ports.done();
    });
  }

  /** Does something that leaves the object when the batch at work is through. */
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
    this.#do((run) =>
      this.#ports.transaction(() => {
        for (const piece of batch) run(piece);
        this.#ports.beforeCommit();
      }),
    );
    this.#ports.done();
  }

  /** @param work calls `run` with each of its pieces */
  #do(work: (run: (piece: Piece) => void) => void): void {
    if (this.#hasFailed) return;
    const effects: (() => void)[] = [];
    this.#deferred = effects;
    let atWork: Piece | null = null;
    try {
      work((piece) => {
        atWork = piece;
        const value = piece.work();
        effects.push(() => piece.resolve(value));
        atWork = null;
      });
    } catch (error) {
      this.#hasFailed = true;
      (atWork as Piece | null)?.reject(error);
      this.#ports.failed(error);
      return;
    } finally {
      this.#deferred = null;
    }
    for (const effect of effects) effect();
  }
}
