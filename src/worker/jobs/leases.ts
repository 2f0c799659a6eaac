import type { JobRef, Renew, Renewed, WorkerFrame } from '../../protocol/index.ts';
import type { Clock, Timer } from '../clock.ts';
import { BASE_PEER, isExtended, type Peer } from '../session/peer.ts';

export interface HeldJob extends JobRef {
  /** What the queue said of whom it is for. */
  account?: string;
  persisted: boolean;
}

export interface LeasesPorts {
  clock: Clock;
  /** Everything not yet acknowledged: a lease covers a job until then. */
  held(): HeldJob[];
  /** The same as a renewal says it, with what has come of stored answers. */
  renewals(): Renew['jobs'];
  isHolding(): boolean;
  peer(): Peer | null;
  send(frame: WorkerFrame): boolean;
  /** A `renew` got no answer until the next one was due. */
  missed(): void;
  /** This attempt is no longer ours; a newer one of the same job may be. */
  lost(job: JobRef): void;
}

/**
 * Renews all leases with one timer, which runs only while something is held. While the socket is down the jobs run on:
 * the queue decides whether they are still ours when it is back.
 */
export class Leases {
  readonly #ports: LeasesPorts;
  readonly #ownPeriodMs: number;
  #isAnswered = true;
  #timer: Timer | null = null;

  constructor(ports: LeasesPorts, renewAfterSeconds: number) {
    this.#ports = ports;
    this.#ownPeriodMs = renewAfterSeconds * 1000;
  }

  /** The set of held jobs has changed. */
  changed(): void {
    if (!this.#ports.isHolding()) this.stop();
    else if (this.#timer === null) this.#arm();
  }

  /** An extended queue has begun every lease anew, and it may be shorter than before. */
  resumed(): void {
    this.#isAnswered = true;
    this.stop();
    this.changed();
  }

  /** The queue's answer, to an older `renew` perhaps. */
  renewed({ lost }: Renewed): void {
    this.#isAnswered = true;
    for (const attempt of lost) this.#ports.lost(attempt);
  }

  stop(): void {
    if (this.#timer !== null) this.#ports.clock.clearTimeout(this.#timer);
    this.#timer = null;
  }

  #arm(): void {
    this.#timer = this.#ports.clock.setTimeout(() => {
      this.#timer = null;
      this.#renew();
      this.changed();
    }, this.#periodMs());
  }

  #periodMs(): number {
    const { renewAfterSeconds } = this.#ports.peer() ?? BASE_PEER;
    return Math.min(this.#ownPeriodMs, renewAfterSeconds * 1000);
  }

  #renew(): void {
    if (isExtended(this.#ports.peer())) {
      if (!this.#isAnswered) this.#ports.missed();
      this.#isAnswered = false;
      this.#ports.send({ type: 'renew', jobs: this.#ports.renewals() });
      return;
    }
    for (const { job_id, fence_token, persisted } of this.#ports.held()) {
      if (persisted) {
        this.#ports.send({ type: 'job_progress', job_id, fence_token, status_message: 'processing' });
      }
    }
  }
}
