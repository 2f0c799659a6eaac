import { Outage } from '../../process/outage.ts';
import type { Timer } from '../clock.ts';
import type { Ports } from '../ports.ts';
import { isTaken, type Platform } from './platform.ts';

export interface PingsPorts extends Pick<Ports, 'clock' | 'log'> {
  platform: Pick<Platform, 'ping'>;
  pingIntervalMs: number;
  /** Returns the ids of the jobs that the platform counts as this worker's. */
  held(): string[];
}

/** Tells the platform at an interval that this worker lives, and which jobs it holds. */
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
