import type { EngineGauges } from '../engine/client/types.ts';
import type { Load } from '../protocol/index.ts';
import {
  type BackpressureSettings,
  NO_PRESSURE,
  nextCheckMs,
  nextPressure,
  type Pressure,
} from './backpressure.ts';
import type { Timer } from './clock.ts';
import type { World } from './world.ts';

export interface LoadWatchParts {
  world: Pick<World, 'clock' | 'engine' | 'log'>;
  /** Null: the engine's gauges are left alone. */
  settings: BackpressureSettings | null;
  /** Null while no jobs are taken anyway. */
  slots(): { running: number; free: number } | null;
  pressureChanged(isPressed: boolean): void;
  /** Something in it differs from the last one on this connection. */
  report(frame: Load): void;
}

/** The jobs that waited go first: a page of metrics keeps the engine, and the first of them, waiting. */
const FIRST_CHECK_MS = 250;

/** Looks at the engine's gauges from time to time: tells the queue of the load, and when it is too much. */
export class LoadWatch {
  readonly #parts: LoadWatchParts;
  #pressure: Pressure = NO_PRESSURE;
  #gauges: EngineGauges | null = null;
  #lastReport = '';
  #timer: Timer = null;
  #isRunning = false;
  #isStopped = false;

  constructor(parts: LoadWatchParts) {
    this.#parts = parts;
  }

  /** Jobs are taken, perhaps over a new connection: the queue knows nothing yet. */
  ready(): void {
    const { settings } = this.#parts;
    this.#lastReport = '';
    if (this.#isRunning || this.#isStopped || !settings) return;
    this.#isRunning = true;
    const firstMs = Math.min(FIRST_CHECK_MS, settings.checkIntervalSeconds * 1000);
    this.#timer = this.#parts.world.clock.setTimeout(() => void this.#check(settings), firstMs);
  }

  /**
   * The queue took a job back. A report that crossed this counted its slot as taken, which would bind the
   * queue until the next one that differs: so there is one now.
   */
  slotReturned(): void {
    if (!this.#isRunning || this.#isStopped) return;
    this.#lastReport = '';
    this.#report();
  }

  /** What was seen of the engine holds no longer: it is being restarted. */
  reset(): void {
    this.#gauges = null;
    this.#become(NO_PRESSURE);
  }

  stop(): void {
    this.#isStopped = true;
    this.#parts.world.clock.clearTimeout(this.#timer);
  }

  async #check(settings: BackpressureSettings): Promise<void> {
    const { clock, engine } = this.#parts.world;
    const gauges = this.#parts.slots() && (await engine.gauges().catch(() => null));
    if (this.#isStopped) return;
    if (this.#parts.slots()) {
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
    this.#parts.world.log.info({ waiting, kv_cache_usage: kvCacheUsage }, text);
    this.#parts.pressureChanged(pressure.isPressed);
  }

  #report(): void {
    const gauges = this.#gauges;
    const slots = this.#parts.slots();
    if (!slots) return;
    const frame: Load = {
      type: 'load',
      running: gauges?.running ?? slots.running,
      waiting: gauges?.waiting ?? 0,
      kv_cache_usage: gauges?.kvCacheUsage ?? 0,
      slots_free: this.#pressure.isPressed ? 0 : slots.free,
    };
    const text = JSON.stringify(frame);
    if (text !== this.#lastReport) this.#parts.report(frame);
    this.#lastReport = text;
  }
}
