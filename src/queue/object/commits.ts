import type { ObjectHost } from '../../durable/host.ts';

/** The name of a call with its arguments: a repeated call has the same name. */
export type CallName = string;

interface CommitPorts {
  /** Does the last work of a group. */
  beforeCommit(): void;
  /** Runs after every group of work. */
  done(): void;
  /** Resolves when the events that were waiting have come, and what was committed before is on disk. */
  gathered(): Promise<void>;
  /**
   * Resets the object at once, since work threw: its writes must not be committed, and no more work is done.
   * @param call the call that threw
   */
  failed(error: unknown, call: CallName | null): void;
  /** Returns the error for which this very call had the object reset a moment ago; null if it did not. */
  failureOf(call: CallName): Error | null;
}

/**
 * The most jobs that one group stores, unless a single submission has more. They take some 20 ms, the longest that
 * other callers wait for a program's submission; more jobs to a commit would gain nothing.
 */
const MOST_JOBS = 250;

interface Work {
  run(): unknown;
  resolve(value: unknown): void;
  call: CallName | null;
}

/** A program's submission of stored jobs. */
interface Submission extends Work {
  jobs: number;
}

/**
 * Orders the work of a queue object by group commit: work that arrives while a commit is on its way to disk gathers in
 * one group, which is done and committed together.
 *
 * Submissions of programs wait apart, and each group takes a bounded part of them: frames of workers and calls of
 * people go with the next group, however much is submitted.
 *
 * Effects that leave the object are deferred to the end of the group, so that all frames for one peer go in one
 * message.
 *
 * Work that throws leaves wrong rows and wrong memory behind. A transaction around each group could undo the rows, but
 * takes an eighth of the time of a stored job, since it copies every page that is written. So the object is reset at
 * once, before anything is committed, and all callers ask again; the caller of the work that threw gets the error then.
 */
export class Commits {
  readonly #ports: CommitPorts;
  #group: Work[] = [];
  readonly #submissions: Submission[] = [];
  #gathers = false;
  /** Effects that the group at work has deferred; null between groups. */
  #deferred: (() => void)[] | null = null;
  #hasFailed = false;

  constructor(ports: CommitPorts) {
    this.#ports = ports;
  }

  /**
   * Does the work together with whatever else arrives until nothing more does: one commit for all of it.
   * @param call the call whose caller asks again after a reset; null if no caller is told an error
   */
  together<T>(work: () => T, call: CallName | null = null): Promise<T> {
    return this.#enqueue(call, (rest) => this.#group.push({ ...rest, run: work }));
  }

  /** Does the work of a program's submission when its turn comes, in a commit that it may share. */
  submission<T>(jobs: number, work: () => T, call: CallName): Promise<T> {
    return this.#enqueue(call, (rest) => this.#submissions.push({ ...rest, run: work, jobs }));
  }

  #enqueue<T>(call: CallName | null, push: (rest: Omit<Work, 'run'>) => void): Promise<T> {
    const failure = call && this.#ports.failureOf(call);
    if (failure) return Promise.reject(failure);
    return new Promise((resolve) => {
      push({ resolve: resolve as Work['resolve'], call });
      if (!this.#gathers) void this.#gather();
    });
  }

  /** Whether work waits for its group, so that later work may not overtake it. */
  get isGathering(): boolean {
    return this.#group.length > 0;
  }

  /** Does work that needs no commit, at once. @param call as in `together` */
  atOnce<T>(work: () => T, call: CallName | null = null): Promise<T> {
    const failure = call && this.#ports.failureOf(call);
    if (failure) return Promise.reject(failure);
    return new Promise((resolve) => {
      this.#do([{ run: work, resolve: resolve as Work['resolve'], call }]);
      this.#ports.done();
    });
  }

  /** Does work at once whose answer may come later. @param call as in `together` */
  answered<T>(call: CallName | null, ask: (answer: (value: T) => void) => void): Promise<T> {
    return new Promise((resolve, reject) => {
      const answer = (value: T) => this.defer(() => resolve(value));
      this.atOnce(() => ask(answer), call).catch(reject);
    });
  }

  /** Defers an effect that leaves the object until the group at work is done. */
  defer(effect: () => void): void {
    if (this.#deferred) this.#deferred.push(effect);
    else effect();
  }

  async #gather(): Promise<void> {
    this.#gathers = true;
    // If the wait fails, the work that has come so far is done without the rest.
    await this.#ports.gathered().catch(() => {});
    const group = [...this.#group, ...this.#someSubmissions()];
    this.#group = [];
    this.#gathers = false;
    this.#do([...group, { run: () => this.#ports.beforeCommit(), resolve: () => {}, call: null }]);
    this.#ports.done();
    if (!this.#gathers && this.#group.length + this.#submissions.length > 0) void this.#gather();
  }

  #someSubmissions(): Submission[] {
    let jobs = 0;
    const over = this.#submissions.findIndex((submission) => {
      jobs += submission.jobs;
      return jobs > MOST_JOBS;
    });
    return this.#submissions.splice(0, over < 0 ? this.#submissions.length : Math.max(1, over));
  }

  #do(group: readonly Work[]): void {
    if (this.#hasFailed) return;
    const effects: (() => void)[] = [];
    this.#deferred = effects;
    for (const { run, resolve, call } of group) {
      try {
        const value = run();
        effects.push(() => resolve(value));
      } catch (error) {
        this.#hasFailed = true;
        this.#deferred = null;
        return this.#ports.failed(error, call);
      }
    }
    this.#deferred = null;
    for (const effect of effects) effect();
  }
}

const AFTER_ERROR = 'the queue starts again after an error';

/**
 * A call for which an object was reset is refused for this many ms: its caller hears why, and a program that repeats it
 * each second does not reset the object each second.
 */
const REFUSED_MS = 30_000;
/** The most failed calls that are remembered. */
const MOST_FAILURES = 100;

/** Failures by queue id and call, oldest first. They are global, since the memory of a process outlives its objects. */
const failures = new Map<string, { message: string; at: number }>();

/** Ends a queue object whose work threw: the object loses memory and connections and keeps its tables. */
export class Resets {
  readonly #host: Pick<ObjectHost, 'queueId' | 'now' | 'restart' | 'log'>;

  constructor(host: Pick<ObjectHost, 'queueId' | 'now' | 'restart' | 'log'>) {
    this.#host = host;
  }

  /**
   * Resets the object, which alone makes memory, disk and workers agree again: workers redial and list what they hold.
   * The reset is immediate, so nothing written since the last commit is committed. Callers are not told why, and ask
   * again.
   * @param call the call that threw; null if no caller is told
   */
  afterError(error: unknown, call: CallName | null): void {
    const { message = String(error), stack = String(error) } = error as Partial<Error>;
    const told = 'the queue failed where it should not; it starts again from what is stored';
    this.#host.log('error', told, { error: stack });
    if (call) {
      const key = this.#keyOf(call);
      failures.delete(key);
      failures.set(key, { message, at: this.#host.now() });
      for (const oldest of failures.keys()) if (failures.size > MOST_FAILURES) failures.delete(oldest);
    }
    this.#host.restart(AFTER_ERROR);
  }

  /** Returns the error for which this very call had the object reset a moment ago; null if it did not. */
  failureOf(call: CallName): Error | null {
    const failure = failures.size > 0 ? failures.get(this.#keyOf(call)) : undefined;
    if (failure === undefined || this.#host.now() - failure.at > REFUSED_MS) return null;
    return new Error(failure.message);
  }

  #keyOf(call: CallName): string {
    return `${this.#host.queueId} ${call}`;
  }
}
