/** What a call asks for: the same when it is made again. */
export type CallName = string;

interface CommitPorts {
  /** The last work of a batch. */
  beforeCommit(): void;
  /** After every batch of work. */
  done(): void;
  /** A call of the object to itself: it comes back after the events that were waiting when it was made. */
  roundTrip(): Promise<void>;
  /** A piece of work threw: nothing is done any more, and the object is to be reset. Called once. */
  failed(error: unknown): void;
  /** The same of a batch, whose writes must not be committed: the object is to be reset at once. @param call that threw */
  batchFailed(error: unknown, call: CallName | null): void;
  /** The error of this very call, had the object to be reset for it; told once. Null: it had not. */
  takeFailure(call: CallName): Error | null;
}

/** A batch that still grows after so many round trips is done all the same. */
const MOST_ROUND_TRIPS = 16;

interface Piece {
  work(): unknown;
  resolve(value: unknown): void;
  call: CallName | null;
}

/**
 * The order in which a queue object works. What arrives while a commit is on its way to disk gathers in one batch
 * and is done, and committed, together.
 *
 * A batch is gathered by round trips, not by a timer: timers of workerd stand still for as long as the clock is
 * set back, and a round trip waits for the commit before it anyway.
 *
 * What leaves the object is deferred until the batch is through: what is said to one peer goes in one message then.
 *
 * Should a piece of work throw, its batch has written what it must not have, and memory is not as it was. A transaction
 * around each batch would undo that, and copies every page that is written, to a file when they are many: an eighth of
 * the time of a stored job. So the object is reset at once, before anything is committed, and everybody asks again;
 * whoever asked for that piece hears the error then.
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

  /**
   * Does the work together with whatever else arrives until nothing more does: one commit for all of it.
   * @param call whose caller asks again after a reset; null: nobody hears an error
   */
  together<T>(work: () => T, call: CallName | null = null): Promise<T> {
    const failure = call && this.#ports.takeFailure(call);
    if (failure) return Promise.reject(failure);
    return new Promise((resolve) => {
      this.#batch.push({ work, resolve: resolve as Piece['resolve'], call });
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
      const failed = (error: unknown) => {
        reject(error);
        this.#ports.failed(error);
      };
      this.#do([{ work, resolve: () => resolve(), call: null }], failed);
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
    const last = { work: () => this.#ports.beforeCommit(), resolve: () => {}, call: null };
    this.#do([...batch, last], (error, { call }) => this.#ports.batchFailed(error, call));
    this.#ports.done();
  }

  #do(pieces: readonly Piece[], failed: (error: unknown, piece: Piece) => void): void {
    if (this.#hasFailed) return;
    const effects: (() => void)[] = [];
    this.#deferred = effects;
    for (const piece of pieces) {
      try {
        const value = piece.work();
        effects.push(() => piece.resolve(value));
      } catch (error) {
        this.#hasFailed = true;
        this.#deferred = null;
        return failed(error, piece);
      }
    }
    this.#deferred = null;
    for (const effect of effects) effect();
  }
}
