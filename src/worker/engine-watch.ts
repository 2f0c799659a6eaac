import { askCanary } from '../engine/client/canary.ts';
import { HangWatch } from '../engine/client/hang.ts';
import { EngineHealth, type HealthState } from '../engine/client/health.ts';
import type { ModelCard } from '../protocol/index.ts';
import { AwaitedEngine, type AwaitedSettings, type Trouble } from './awaited-engine.ts';
import type { Ports } from './ports.ts';
import type { Worker } from './worker.ts';

export interface EngineWatchPorts extends Pick<Ports, 'clock' | 'engine'> {
  worker: Worker;
  startupTimeoutMs: number;
  hangSeconds: number;
  canarySeconds: number;
  /** Kills the engine, so that it is restarted or the worker ends; null: it is not ours to kill. */
  reportHang: ((message: string) => void) | null;
  /** Null: it is started beside this worker, by who tells how its start goes. */
  awaited: AwaitedSettings | null;
}

/** Tells the worker of everything that can be seen of the engine from outside: its health, and whether it hangs. */
export class EngineWatch {
  readonly #ports: EngineWatchPorts;
  readonly #health: EngineHealth;
  readonly #hang: HangWatch;
  readonly #awaited: AwaitedEngine | null;
  #models: string[] = [];
  #cards: ModelCard[] = [];

  constructor(ports: EngineWatchPorts) {
    const { worker } = ports;
    this.#ports = ports;
    const tell = ({ message, advice }: Trouble) => worker.engineAwaited(message, advice);
    this.#awaited = ports.awaited && new AwaitedEngine({ ...ports, tell }, ports.awaited);
    this.#health = new EngineHealth({
      probe: ports.engine.probe,
      startupTimeoutMs: ports.startupTimeoutMs,
      clock: ports.clock,
      onChange: (state, message) => void this.#healthChanged(state, message),
    });
    this.#hang = new HangWatch({
      clock: ports.clock,
      gauges: () => ports.engine.gauges().catch(() => null),
      canary: (limitMs) => askCanary(ports.engine, this.#models[0], limitMs),
      ownWork: () => worker.running,
      hangMs: ports.hangSeconds * 1000,
      canaryMs: ports.canarySeconds * 1000,
      isRestarted: ports.reportHang !== null,
      // An engine that is not ours is waited for as if somebody restarted it.
      hung: ports.reportHang ?? ((message) => worker.engineRestarting(message)),
      recovered: () => worker.engineHealthy(this.#models, this.#cards),
    });
  }

  start(): void {
    this.#health.start();
    this.#awaited?.start();
  }

  stop(): void {
    this.#health.stop();
    this.#awaited?.stop();
    this.#hang.stop();
  }

  /** A job failed as jobs of a dying engine do. */
  doubt(message: string): void {
    this.#health.doubt(message);
  }

  /** The engine's process ended and is started again after a pause. */
  restarting(message: string, afterMs: number, advice: string): void {
    this.#hang.stop();
    this.#ports.worker.engineRestarting(message, advice);
    this.#health.restart(afterMs);
  }

  async #healthChanged(state: HealthState, message: string): Promise<void> {
    const { engine, worker } = this.#ports;
    this.#awaited?.stop();
    if (state === 'failed') {
      const trouble = this.#awaited?.gaveUp(this.#ports.startupTimeoutMs);
      worker.engineFailed(trouble?.message ?? message, false, 'transient', trouble?.advice);
    }
    if (state === 'doubted' || state === 'unhealthy') worker.engineUnhealthy(message);
    if (state === 'unhealthy') this.#hang.unhealthy();
    if (state !== 'healthy') return;
    const [models, cards] = await Promise.all([engine.models(), engine.modelCards()]);
    if (this.#health.state !== 'healthy') return;
    // One that has much to do may not say it in time.
    if (models.length > 0) [this.#models, this.#cards] = [models, cards];
    worker.engineHealthy(this.#models, this.#cards);
    this.#hang.healthy();
  }
}
