import type { EngineGauges } from '../../engine/client/types.ts';
import { withTimeout } from '../../process/clock.ts';
import type { GpuReading } from '../../protocol/index.ts';
import type { Ports } from '../ports.ts';

/** A report that is due waits this long for readings, ms. */
const WITHIN_MS = 500;

/** Readings that the worker has to ask others for. */
export interface Readings {
  /** The engine's gauges; null: the engine is not up, or does not report them. */
  gauges: EngineGauges | null;
  gpus: GpuReading[];
  engineVersion: string | null;
}

export interface CollectorPorts extends Pick<Ports, 'clock' | 'engine' | 'gpus'> {
  /** Tells whether the engine is up: an engine that starts is asked for nothing. */
  isEngineUp(): boolean;
}

/**
 * Asks engine and driver for readings. Never rejects, and never waits for a late reading, which goes into the next
 * readings.
 */
export class Collector {
  readonly #ports: CollectorPorts;
  #newest: Readings = { gauges: null, gpus: [], engineVersion: null };

  constructor(ports: CollectorPorts) {
    this.#ports = ports;
  }

  /** The newest readings, without asking again. */
  get newest(): Readings {
    return this.#newest;
  }

  /** Forgets the readings of the engine, which is another one from now on. */
  forgetEngine(): void {
    this.#newest = { ...this.#newest, gauges: null, engineVersion: null };
  }

  async take(): Promise<Readings> {
    const { clock } = this.#ports;
    await withTimeout(clock, WITHIN_MS, () => this.#ask()).catch(() => {});
    return this.#newest;
  }

  async #ask(): Promise<void> {
    const { engine, gpus, isEngineUp } = this.#ports;
    const isUp = isEngineUp();
    await Promise.all([
      gpus().then((read) => this.#note({ gpus: read })),
      isUp
        ? engine.gauges().then(
            (gauges) => this.#note({ gauges }),
            () => this.#note({ gauges: null }),
          )
        : this.#note({ gauges: null }),
      isUp && this.#newest.engineVersion === null
        ? engine.version().then((engineVersion) => this.#note({ engineVersion }))
        : undefined,
    ]);
  }

  #note(part: Partial<Readings>): void {
    this.#newest = { ...this.#newest, ...part };
  }
}
