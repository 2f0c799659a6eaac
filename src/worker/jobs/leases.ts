import { bounds, type JobRef, type Renew, type Renewed } from '../../protocol/index.ts';
import type { Clock, Timer } from '../clock.ts';
import { BASE_PEER, isExtended } from '../session/peer.ts';
import type { Session } from '../session/session.ts';
import type { HeldJobs } from './held-jobs.ts';

export interface LeasesPorts {
  clock: Clock;
  held: HeldJobs;
  queue: Pick<Session, 'peer' | 'send'>;
  /** Called when a `renew` had no answer by the time the next one was due. */
  missed(): void;
  /** Called when this attempt is no longer ours; a newer attempt at the same job may be ours. */
  lost(job: JobRef): void;
}

/**
 * Renews all leases with one timer, which runs only while the worker holds a job. While the socket is down the jobs
 * continue; when it is back, the queue decides whether they are still ours.
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

  /** Starts or stops the timer after the set of held jobs has changed. */
  changed(): void {
    if (!this.#ports.held.hasLeases) this.stop();
    else if (this.#timer === null) this.#arm();
  }

  /** Restarts the timer: an extended queue has begun every lease anew, and its leases may be shorter than before. */
  resumed(): void {
    this.#isAnswered = true;
    this.stop();
    this.changed();
  }

  /** Applies the queue's answer, which may be to an older `renew`. */
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
    const { renewAfterSeconds } = this.#ports.queue.peer ?? BASE_PEER;
    return Math.min(this.#ownPeriodMs, renewAfterSeconds * 1000);
  }

  #renew(): void {
    const { held, queue, missed } = this.#ports;
    if (isExtended(queue.peer)) {
      if (!this.#isAnswered) missed();
      this.#isAnswered = false;
      queue.send({ type: 'renew', jobs: renewals(held) });
      return;
    }
    // A base queue counts what was sent as settled, and knows leases of stored jobs only.
    for (const { job } of held.allRunning()) {
      const { job_id, fence_token, mode } = job;
      if (mode === 'persisted') {
        queue.send({ type: 'job_progress', job_id, fence_token, status_message: 'processing' });
      }
    }
  }
}

/**
 * Returns the renewals of all leases, with the parts that stored answers have gained since the last renewal: if the
 * worker is lost, only what it generated since then is lost too. Parts for which there is no room go with the next
 * renewal.
 */
function renewals(held: HeldJobs): Renew['jobs'] {
  let room = bounds.PARTS_CHARACTERS;
  return held.refs().map(({ job_id, fence_token }) => {
    const ref = { job_id, fence_token };
    const running = held.runningOf(job_id);
    const assembly = running?.assembly ?? null;
    const next = assembly?.part() ?? null;
    if (running === null || assembly === null || next === null) return ref;
    const { part, characters } = next;
    room -= characters;
    if (room < 0) return ref;
    assembly.partReported(part, characters);
    const timing = part.after === 0 ? running.timing() : undefined;
    return { ...ref, part, ...(timing && { timing }) };
  });
}
