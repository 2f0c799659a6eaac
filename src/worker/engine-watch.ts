import { askCanary } from '../engine/client/canary.ts';
import { HangWatch } from '../engine/client/hang.ts';
import { EngineHealth, type HealthState } from '../engine/client/health.ts';
import type { Worker } from './worker.ts';
import type { World } from './world.ts';

export interface EngineWatchParts {
  world: Pick<World, 'clock' | 'engine'>;
  worker: Worker;
  startupTimeoutMs: number;
  hangSeconds: number;
  canarySeconds: number;
  /** Kills the engine, so that it is restarted or the worker ends; null: it is not ours to kill. */
  reportHang: ((message: string) => void) | null;
}

/** Tells the worker of everything that can be seen of the engine from outside: its health, and whether it hangs. */
export class EngineWatch {
  readonly #parts: EngineWatchParts;
  readonly #health: EngineHealth;
  readonly #hang: HangWatch;
  #models: string[] = [];

  constructor(parts: EngineWatchParts) {
    const { world, worker } = parts;
    this.#parts = parts;
    this.#health = new EngineHealth({
      probe: world.engine.probe,
      startupTimeoutMs: parts.startupTimeoutMs,
      clock: world.clock,
      onChange: (state, message) => void this.#healthChanged(state, message),
    });
    this.#hang = new HangWatch({
      clock: world.clock,
      gauges: () => world.engine.gauges().catch(() => null),
      canary: (limitMs) => askCanary(world.engine, this.#models[0], limitMs),
      ownWork: () => worker.running,
      hangMs: parts.hangSeconds * 1000,
      canaryMs: parts.canarySeconds * 1000,
      isRestarted: parts.reportHang !== null,
      // An engine that is not ours is waited for as if somebody restarted it.
      hung: parts.reportHang ?? ((message) => worker.engineRestarting(message)),
      recovered: () => worker.engineHealthy(this.#models),
    });
  }

  start(): void {
    this.#health.start();
  }

  stop(): void {
    this.#health.stop();
    this.#hang.stop();
  }

  /** The engine's process ended and is started again after a pause. */
  restarting(message: string, afterMs: number): void {
    this.#hang.stop();
    this.#parts.worker.engineRestarting(message);
    this.#health.restart(afterMs);
  }

  async #healthChanged(state: HealthState, message: string): Promise<void> {
    const { world, worker } = this.#parts;
    if (state === 'failed') worker.engineFailed(message, false);
    if (state === 'unhealthy') {
      worker.engineUnhealthy(message);
      this.#hang.unhealthy();
    }
    if (state !== 'healthy') return;
    const models = await world.engine.models();
    if (this.#health.state !== 'healthy') return;
    this.#models = models;
    worker.engineHealthy(models);
    this.#hang.healthy();
  }
}
