import type { EngineGauges } from '../../engine/client/types.ts';
import type { Load } from '../../protocol/index.ts';
import type { Timer } from '../clock.ts';
import type { Ports } from '../ports.ts';
import {
  type BackpressureSettings,
  NO_PRESSURE,
  nextCheckMs,
  nextPressure,
  type Pressure,
} from './backpressure.ts';

export interface LoadWatchPorts extends Pick<Ports, 'clock' | 'engine' | 'log'> {
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
  readonly #ports: LoadWatchPorts;
  #pressure: Pressure = NO_PRESSURE;
  #gauges: EngineGauges | null = null;
  #lastReport = '';
  #timer: Timer = null;
  #isRunning = false;
  #isStopped = false;

  constructor(ports: LoadWatchPorts) {
    this.#ports = ports;
  }

  /** Jobs are taken, perhaps over a new connection: the queue knows nothing yet. */
  ready(): void {
    const { settings } = this.#ports;
    this.#lastReport = '';
    if (this.#isRunning || this.#isStopped || !settings) return;
    this.#isRunning = true;
    const firstMs = Math.min(FIRST_CHECK_MS, settings.checkIntervalSeconds * 1000);
    this.#timer = this.#ports.clock.setTimeout(() => void this.#check(settings), firstMs);
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
    const frame: Load = {
      type: 'load',
      running: gauges?.running ?? slots.running,
      waiting: gauges?.waiting ?? 0,
      kv_cache_usage: gauges?.kvCacheUsage ?? 0,
      slots_free: this.#pressure.isPressed ? 0 : slots.free,
    };
    const text = JSON.stringify(frame);
    if (text !== this.#lastReport) this.#ports.report(frame);
    this.#lastReport = text;
  }
}
