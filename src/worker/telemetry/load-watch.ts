import type { EngineGauges } from '../../engine/client/types.ts';
import type { Load } from '../../protocol/index.ts';
import type { Timer } from '../clock.ts';
import type { Ports } from '../ports.ts';

export interface BackpressureSettings {
  /** The time between two checks, s; a backlog must last this long before it counts. */
  checkIntervalSeconds: number;
  /** The worker pauses when more requests than this wait in the engine. */
  pauseAboveWaiting: number;
  /** The worker resumes when at most this many requests wait. */
  resumeAtWaiting: number;
}

/** The time between two checks while a backlog is suspected or dispatch is paused, ms. */
const RECHECK_MS = 500;
/**
 * The worker takes no new jobs above this share of the KV cache: soon above it vLLM preempts requests and computes
 * their prompts again. The last twentieth is room for the tokens of requests that are running already.
 */
const KV_CACHE_LIMIT = 0.95;
/** Up to this share of the slots may wait in the engine without counting as a backlog. */
const DEFAULT_SHARE = 1 / 4;

/**
 * The state of the pressure on the engine.
 *
 * - `free`     → `watched` (a check found too many waiting), `pressed` (KV cache over its limit)
 * - `watched`  → `pressed` (every check of a whole interval found too many, or the KV cache is over its limit), `free`
 *   (a check found fewer)
 * - `pressed`  → `free` (few enough waiting and the KV cache within its limit)
 */
export interface Pressure {
  isPressed: boolean;
  /**
   * The time of the first in an unbroken row of checks that found too many waiting, epoch ms; null: the last found
   * fewer.
   */
  highSinceMs: number | null;
}

export const NO_PRESSURE: Pressure = { isPressed: false, highSinceMs: null };

/**
 * Returns the default of `pauseAboveWaiting`. An engine counts a request as waiting until its next step takes it up, so
 * even a healthy engine shows requests that arrive during one step as waiting.
 */
export function defaultPauseThreshold(slots: number): number {
  return Math.ceil(slots * DEFAULT_SHARE);
}

/** Returns the pressure after a check. Null gauges (no metrics page, or no answer) change nothing. */
export function nextPressure(
  before: Pressure,
  gauges: EngineGauges | null,
  settings: BackpressureSettings,
  nowMs: number,
): Pressure {
  if (gauges === null) return before;
  const { checkIntervalSeconds, pauseAboveWaiting, resumeAtWaiting } = settings;
  const highSinceMs = gauges.waiting > pauseAboveWaiting ? (before.highSinceMs ?? nowMs) : null;
  const isFull = gauges.kvCacheUsage > KV_CACHE_LIMIT;
  const isBacklog = highSinceMs !== null && nowMs - highSinceMs >= checkIntervalSeconds * 1000;
  const isLow = !isFull && gauges.waiting <= resumeAtWaiting;
  return { isPressed: isFull || isBacklog || (before.isPressed && !isLow), highSinceMs };
}

/** Returns the time until the next check, ms: a suspicion is soon confirmed or dropped, and a pause soon ended. */
export function nextCheckMs(pressure: Pressure, settings: BackpressureSettings): number {
  const intervalMs = settings.checkIntervalSeconds * 1000;
  const isCalm = !pressure.isPressed && pressure.highSinceMs === null;
  return isCalm ? intervalMs : Math.min(RECHECK_MS, intervalMs);
}

export interface LoadWatchPorts extends Pick<Ports, 'clock' | 'engine' | 'log'> {
  /** The settings of backpressure; null: the engine's gauges are not read. */
  settings: BackpressureSettings | null;
  /** Returns the slots; null: the worker takes no jobs anyway. */
  slots(): { running: number; free: number } | null;
  /** Returns the tokens that attempts have generated so far, by the attempts' fence tokens. */
  generated(): [fence: number, tokens: number][];
  pressureChanged(isPressed: boolean): void;
  /** Called with a load that differs from the last one reported on this connection. */
  report(frame: Load): void;
}

/**
 * The time until the first check, ms. The jobs that waited go first: a page of metrics occupies the engine, and delays
 * the first of these jobs.
 */
const FIRST_CHECK_MS = 250;

/** Reads the engine's gauges at an interval, reports the load to the queue, and decides when it is too much. */
export class LoadWatch {
  readonly #ports: LoadWatchPorts;
  #pressure: Pressure = NO_PRESSURE;
  #gauges: EngineGauges | null = null;
  #lastReport = '';
  /** The number of tokens of each attempt that was reported to the queue, by fence token. */
  #told = new Map<number, number>();
  #timer: Timer = null;
  #isRunning = false;
  #isStopped = false;

  constructor(ports: LoadWatchPorts) {
    this.#ports = ports;
  }

  /** Starts to check, since jobs are taken, perhaps over a new connection, whose queue knows nothing yet. */
  ready(): void {
    const { settings } = this.#ports;
    this.#lastReport = '';
    if (this.#isRunning || this.#isStopped || !settings) return;
    this.#isRunning = true;
    const firstMs = Math.min(FIRST_CHECK_MS, settings.checkIntervalSeconds * 1000);
    this.#timer = this.#ports.clock.setTimeout(() => void this.#check(settings), firstMs);
  }

  /**
   * Reports the load after the queue took a job back. A report that crossed the take-back counted the slot as taken,
   * and the queue would believe it until a report differs.
   */
  slotReturned(): void {
    if (!this.#isRunning || this.#isStopped) return;
    this.#lastReport = '';
    this.#report();
  }

  /** Reports the load when the engine that shares its GPU waits for its turn, or has its turn. */
  turned(): void {
    if (this.#isRunning && !this.#isStopped) this.#report();
  }

  /** Forgets the readings of an engine that is being restarted. */
  reset(): void {
    this.#gauges = null;
    this.#become(NO_PRESSURE);
  }

  stop(): void {
    this.#isStopped = true;
    this.#ports.clock.clearTimeout(this.#timer);
  }

  async #check(settings: BackpressureSettings): Promise<void> {
    const { clock, engine } = this.#ports;
    const gauges = this.#ports.slots() && (await engine.gauges().catch(() => null));
    if (this.#isStopped) return;
    if (this.#ports.slots()) {
      this.#gauges = gauges;
      this.#become(nextPressure(this.#pressure, gauges, settings, clock.now()));
      this.#report();
    }
    const waitMs = nextCheckMs(this.#pressure, settings);
    this.#timer = clock.setTimeout(() => void this.#check(settings), waitMs);
  }

  #become(pressure: Pressure): void {
    const hasChanged = pressure.isPressed !== this.#pressure.isPressed;
    this.#pressure = pressure;
    if (!hasChanged) return;
    const text = pressure.isPressed
      ? 'the engine has a backlog; taking no more jobs until it is smaller'
      : 'taking jobs again: the backlog of the engine is gone';
    const { waiting, kvCacheUsage } = this.#gauges ?? {};
    this.#ports.log.info({ waiting, kv_cache_usage: kvCacheUsage }, text);
    this.#ports.pressureChanged(pressure.isPressed);
  }

  #report(): void {
    const gauges = this.#gauges;
    const slots = this.#ports.slots();
    if (!slots) return;
    const known = this.#ports.generated();
    const generated = known.filter(([fence, tokens]) => this.#told.get(fence) !== tokens);
    this.#told = new Map(known);
    const frame: Load = {
      type: 'load',
      running: gauges?.running ?? slots.running,
      waiting: gauges?.waiting ?? 0,
      kv_cache_usage: gauges?.kvCacheUsage ?? 0,
      slots_free: this.#pressure.isPressed ? 0 : slots.free,
      ...(this.#ports.engine.awaitsTurn && { awaits_turn: true }),
      ...(generated.length > 0 && { generated }),
    };
    const text = JSON.stringify(frame);
    if (text !== this.#lastReport) this.#ports.report(frame);
    this.#lastReport = text;
  }
}
