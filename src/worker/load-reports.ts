import type { Load } from '../protocol/index.ts';
import type { Timer } from './clock.ts';
import type { World } from './world.ts';

const EVERY_MS = 1000;

export interface LoadReportsParts {
  world: Pick<World, 'clock' | 'engine'>;
  /** Null while there is nobody to report to. */
  slots(): { running: number; free: number } | null;
  send(frame: Load): void;
}

/** Tells the queue the engine's live gauges, at most once a second and only when they changed. */
export class LoadReports {
  readonly #parts: LoadReportsParts;
  #last = '';
  #timer: Timer = null;
  #stopped = true;

  constructor(parts: LoadReportsParts) {
    this.#parts = parts;
  }

  /** A new connection: the queue knows nothing yet. */
  connected(): void {
    this.#last = '';
    if (!this.#stopped) return;
    this.#stopped = false;
    void this.#report();
  }

  stop(): void {
    this.#stopped = true;
    this.#parts.world.clock.clearTimeout(this.#timer);
  }

  async #report(): Promise<void> {
    const gauges = this.#parts.slots() && (await this.#parts.world.engine.gauges().catch(() => null));
    const slots = this.#parts.slots();
    if (this.#stopped) return;
    if (slots) {
      const frame: Load = {
        type: 'load',
        running: gauges?.running ?? slots.running,
        waiting: gauges?.waiting ?? 0,
        kv_cache_usage: gauges?.kvCacheUsage ?? 0,
        slots_free: slots.free,
      };
      const text = JSON.stringify(frame);
      if (text !== this.#last) this.#parts.send(frame);
      this.#last = text;
    }
    this.#timer = this.#parts.world.clock.setTimeout(() => void this.#report(), EVERY_MS);
  }
}
