import { LEASE_MS } from './held-lease.ts';

/** A process that has not read the lease for longer than this, ms, does not know whether the owner could renew it. */
const BLIND_MS = 1500;

/**
 * Decides when a follower may take over, from what it reads of the lease. While the server of the journal is away
 * nobody can renew the lease, and the owner may be well: once the server is back, the owner gets the time of a lease to
 * renew it.
 */
export class LeaseWatch {
  /** The time at which the lease was last read, by a clock that never goes back; null: it was not yet. */
  #readAt: number | null = null;
  #notBefore = 0;

  /** Notes that the lease could not be read. */
  failed(): void {
    this.#readAt = Number.NEGATIVE_INFINITY;
  }

  /** Notes that the lease was read now. @returns whether to take over */
  read(isAlive: boolean, now: number): boolean {
    if (this.#readAt !== null && now - this.#readAt > BLIND_MS) this.#notBefore = now + LEASE_MS;
    this.#readAt = now;
    return !isAlive && now >= this.#notBefore;
  }
}
