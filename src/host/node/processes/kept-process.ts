import { doubling } from '../../../process/backoff.ts';
import { type Clock, sleep, type Timer } from '../../../process/clock.ts';
import { EXIT, type Log, UserError } from '../../../process/index.ts';
import type { Failure, FromChild, ToChild } from './messages.ts';

/** A process that lived for so long, ms, is started again at once when it ends. */
const STEADY_MS = 10_000;
/** The pause before a process that ended sooner is started again, ms; it doubles up to the second value. */
const PAUSE_MS = { first: 250, most: 10_000 };
/** Beyond the time in which a process has to stop, it has this many ms before it is killed. */
const KILL_AFTER_MS = 1500;

/** A process that was started. */
export interface StartedProcess {
  readonly pid: number | undefined;
  tell(message: ToChild): void;
  kill(): void;
  /** Resolves when the process has ended, to how it did, such as `with code 1`. Never rejects. */
  readonly ended: Promise<string>;
}

export interface KeptProcessPorts {
  /** Starts a process. @param heard is called with each of its messages */
  start(heard: (message: FromChild) => void): StartedProcess;
  clock: Clock;
  log: Pick<Log, 'info' | 'warn'>;
  /** Called when another start would be useless: the whole has to end. */
  failed(error: Error): void;
}

/**
 * The state of a kept process:
 *
 * - `starting` → `up` (it says so), `waiting` (it ended before)
 * - `up`       → `waiting` (it ended), `starting` (it drains: another one takes its place while it lives on)
 * - `waiting`  → `starting` (the pause is over)
 * - any        → `stopped` (asked for, or another start would be useless), which is final.
 */
export type KeptProcessState = 'starting' | 'up' | 'waiting' | 'stopped';

/** Keeps one process running: whenever it ends, another one is started, after a pause that grows. */
export class KeptProcess {
  readonly #name: string;
  readonly #ports: KeptProcessPorts;
  #state: KeptProcessState = 'waiting';
  /** The newest process. */
  #newest: StartedProcess | null = null;
  /** Every process that lives, those that drain too. */
  readonly #alive = new Set<StartedProcess>();
  readonly #firstUp = Promise.withResolvers<void>();
  #wasUp = false;
  /** The number of processes in a row that did not live long. */
  #failures = 0;
  #timer: Timer = null;

  /** @param name names the process in the log, such as `gateway-1` */
  constructor(name: string, ports: KeptProcessPorts) {
    this.#name = name;
    this.#ports = ports;
    this.#firstUp.promise.catch(() => {});
  }

  get state(): KeptProcessState {
    return this.#state;
  }

  /** Starts it. Resolves when it is up. @throws UserError or Error when its first process could not start */
  start(): Promise<void> {
    this.#begin();
    return this.#firstUp.promise;
  }

  /** Ends all its processes, and starts no more. @param withinMs the time that they need for it at most */
  async stop(withinMs: number): Promise<void> {
    this.#stopped();
    const { clock } = this.#ports;
    const all = [...this.#alive];
    for (const one of all) one.tell({ type: 'stop' });
    const over = new AbortController();
    const late = sleep(clock, withinMs + KILL_AFTER_MS, over.signal);
    const ended = Promise.all(all.map((one) => one.ended));
    await Promise.race([ended, late]);
    over.abort();
    for (const one of this.#alive) one.kill();
    await ended;
  }

  #begin(): void {
    const { clock, log } = this.#ports;
    this.#state = 'starting';
    const startedAt = clock.now();
    const started = this.#ports.start((message) => this.#hear(started, message));
    this.#newest = started;
    this.#alive.add(started);
    void started.ended.then((how) => {
      this.#alive.delete(started);
      if (this.#state === 'stopped') return;
      if (this.#newest !== started) return log.info({}, `${this.#called(started)} has ended ${how}`);
      this.#again(started, how, clock.now() - startedAt);
    });
  }

  #hear(from: StartedProcess, message: FromChild): void {
    if (from !== this.#newest || this.#state === 'stopped') return;
    if (message.type === 'up') {
      this.#state = 'up';
      this.#wasUp = true;
      this.#ports.log.info({}, `${this.#called(from)} is up`);
      this.#firstUp.resolve();
    } else if (message.type === 'drains') {
      this.#ports.log.info({}, `${this.#called(from)} drains; another one takes its place`);
      this.#begin();
    } else {
      const error = errorOf(message);
      if (message.type === 'refused' && this.#wasUp && mayPass(error)) {
        this.#ports.log.warn({}, `${this.#called(from)} could not start: ${error.message}`);
      } else this.#fail(error);
    }
  }

  #again(gone: StartedProcess, how: string, livedMs: number): void {
    if (!this.#wasUp) return this.#fail(new Error(`${this.#name} ended ${how} before it was up`));
    this.#failures = livedMs >= STEADY_MS ? 0 : this.#failures + 1;
    // The first one to end soon may have been killed, and all wait for the next.
    const pauseMs = this.#failures <= 1 ? 0 : doubling(PAUSE_MS.first, PAUSE_MS.most, this.#failures - 1);
    const when = pauseMs === 0 ? 'at once' : `in ${pauseMs / 1000} s`;
    this.#ports.log.warn({}, `${this.#called(gone)} ended ${how}; it is started again ${when}`);
    this.#state = 'waiting';
    this.#timer = this.#ports.clock.setTimeout(() => this.#begin(), pauseMs);
  }

  #fail(error: Error): void {
    this.#stopped();
    if (this.#wasUp) this.#ports.failed(error);
    else this.#firstUp.reject(error);
  }

  #stopped(): void {
    this.#state = 'stopped';
    this.#ports.clock.clearTimeout(this.#timer);
  }

  #called({ pid }: StartedProcess): string {
    return `${this.#name} (process ${pid})`;
  }
}

function errorOf({ message, exitCode }: Failure): Error {
  return exitCode === null ? new Error(message) : new UserError(message, exitCode);
}

/** Returns whether another start may succeed although nobody mends anything. */
function mayPass(error: Error): boolean {
  return !(error instanceof UserError) || error.exitCode === EXIT.portInUse;
}
