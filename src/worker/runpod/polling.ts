import { doubling } from '../../process/backoff.ts';
import { Outage } from '../../process/outage.ts';
import type { Timer } from '../clock.ts';
import type { Ports } from '../ports.ts';
import { isTaken, type Platform, type PlatformAnswer, pauseAfterFailure } from './platform.ts';

/** A poll that the platform held for this long, ms, is repeated at once, since this makes no busy loop. */
const HELD_MS = 1000;
/** The pause after an empty answer that came at once, ms; it doubles with each such answer in a row. */
const EMPTY_PAUSE_MS = 50;
const LONGEST_EMPTY_PAUSE_MS = 1000;
/** The pause after a 400, by which the platform says that it has put its workers to sleep (FlashBoot), ms. */
const ASLEEP_PAUSE_MS = 1000;
/** The pause after a 429, ms, as in RunPod's SDK. */
const TOO_MANY_PAUSE_MS = 5000;

export interface PollingPorts extends Pick<Ports, 'clock' | 'random' | 'log'> {
  /** Asks the platform; null: there is nothing to ask for until `wake`. */
  ask(signal: AbortSignal): Promise<PlatformAnswer> | null;
  /** Takes an answer. @returns whether it brought anything */
  received(body: unknown): boolean;
  /** The least pause after an answer that brought nothing, ms. */
  idlePauseMs: number;
  /** The lines that the log shows when answers stop, and when they resume. */
  says: { begins: string; ends: string };
}

/** Asks the platform again and again, one request at a time, with pauses that avoid a busy loop. */
export class Polling {
  readonly #ports: PollingPorts;
  readonly #outage: Outage;
  readonly #ended = new AbortController();
  readonly #over = Promise.withResolvers<void>();
  #isStarted = false;
  #isStopping = false;
  #failures = 0;
  #empty = 0;
  #timer: Timer = null;
  /** True while the loop waits for something to ask for. */
  #isIdle = false;
  #resume: (() => void) | null = null;

  constructor(ports: PollingPorts) {
    this.#ports = ports;
    this.#outage = new Outage(ports.log, ports.says);
  }

  start(): void {
    if (this.#isStarted || this.#isStopping) return;
    this.#isStarted = true;
    void this.#run().finally(this.#over.resolve);
  }

  /** Ends a wait, since there may be something to ask for now. */
  wake(): void {
    if (this.#isIdle) this.#resume?.();
  }

  /**
   * Sends no further request. The open one may last this long: a job that the platform gives to a connection that was
   * given up is lost. Resolves when nothing can arrive any more.
   */
  async stop(lingerMs: number): Promise<void> {
    this.#isStopping = true;
    this.#resume?.();
    if (!this.#isStarted) return;
    const timer = this.#ports.clock.setTimeout(() => this.end(), lingerMs);
    await this.#over.promise;
    this.#ports.clock.clearTimeout(timer);
  }

  /** Stops at once. */
  end(): void {
    this.#isStopping = true;
    this.#ended.abort();
    this.#resume?.();
  }

  async #run(): Promise<void> {
    const { clock } = this.#ports;
    while (!this.#isStopping) {
      const asked = this.#ports.ask(this.#ended.signal);
      if (asked === null) {
        await this.#wait(null);
        continue;
      }
      const askedAtMs = clock.now();
      const answer = await asked;
      if (this.#ended.signal.aborted && answer.status === null) return;
      const hasBrought = isTaken(answer) && this.#ports.received(answer.body);
      const pauseMs = hasBrought ? this.#bringing() : this.#pauseAfter(answer, clock.now() - askedAtMs);
      if (pauseMs > 0 && !this.#isStopping) await this.#wait(pauseMs);
    }
  }

  #bringing(): number {
    this.#failures = 0;
    this.#empty = 0;
    this.#outage.report(null);
    return 0;
  }

  #pauseAfter(answer: PlatformAnswer, tookMs: number): number {
    const { idlePauseMs, random } = this.#ports;
    // A long poll without an answer is no failure: the platform had nothing to give.
    const isQuiet = answer.status === null && tookMs >= HELD_MS * 30;
    if (isTaken(answer) || isQuiet) {
      this.#failures = 0;
      this.#outage.report(null);
      this.#empty = tookMs >= HELD_MS ? 0 : this.#empty + 1;
      if (this.#empty === 0) return idlePauseMs;
      return Math.max(idlePauseMs, doubling(EMPTY_PAUSE_MS, LONGEST_EMPTY_PAUSE_MS, this.#empty));
    }
    if (answer.status === 400) return ASLEEP_PAUSE_MS;
    if (answer.status === 429) return TOO_MANY_PAUSE_MS;
    this.#failures += 1;
    this.#outage.report(answer.problem);
    return pauseAfterFailure(this.#failures, random);
  }

  /** Waits. @param ms the longest wait; null: until `wake` */
  #wait(ms: number | null): Promise<void> {
    return new Promise((resolve) => {
      this.#isIdle = ms === null;
      this.#resume = () => {
        this.#resume = null;
        this.#isIdle = false;
        this.#ports.clock.clearTimeout(this.#timer);
        resolve();
      };
      if (ms !== null) this.#timer = this.#ports.clock.setTimeout(() => this.#resume?.(), ms);
    });
  }
}

export interface PingsPorts extends Pick<Ports, 'clock' | 'log'> {
  platform: Pick<Platform, 'ping'>;
  pingIntervalMs: number;
  /** Returns the ids of the jobs that the platform counts as this worker's. */
  held(): string[];
}

/** Reports to the platform at an interval that this worker lives, and which jobs it holds. */
export class Pings {
  readonly #ports: PingsPorts;
  readonly #outage: Outage;
  #isStarted = false;
  #isEnded = false;
  #next: Timer = null;

  constructor(ports: PingsPorts) {
    this.#ports = ports;
    this.#outage = new Outage(ports.log, {
      begins: 'pings do not arrive: RunPod may take this worker for dead',
      ends: 'pings arrive again',
    });
  }

  /** Sends the first ping at once. */
  start(): void {
    if (this.#isStarted) return;
    this.#isStarted = true;
    this.#ping();
  }

  end(): void {
    this.#isEnded = true;
    this.#ports.clock.clearTimeout(this.#next);
  }

  #ping(): void {
    const { clock, platform, pingIntervalMs, held } = this.#ports;
    if (this.#isEnded || !platform.ping) return;
    void platform.ping(held()).then((answer) => {
      this.#outage.report(isTaken(answer) ? null : answer.problem);
      if (!this.#isEnded) this.#next = clock.setTimeout(() => this.#ping(), pingIntervalMs);
    });
  }
}
