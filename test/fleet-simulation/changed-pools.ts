import type { FleetHost } from './fleet-host.ts';
import type { FleetPlan } from './plan.ts';
import type { QueueHost } from './queue-host.ts';

interface Watched {
  plan: FleetPlan;
  queue: QueueHost;
  host: FleetHost;
  /** Nothing has gone wrong lately: accidents take workers too. */
  isCalm(): boolean;
  violated(promise: string, message: string): void;
}

/** A pool whose settings are changed while it runs never has fewer workers that serve than it had, or than it needs. */
export class ChangedPools {
  readonly #watched: Watched;
  /** By pool: as many as it has to have, and had when it was changed. */
  readonly #changed = new Map<string, { needs: number; had: number }>();

  constructor(watched: Watched) {
    this.#watched = watched;
  }

  /** An operator has just put other settings of every pool in force. */
  changed(): void {
    // At the end of a day's budget everything is drained.
    if (this.#watched.plan.spec.budget.per_day !== undefined) return;
    for (const id of Object.keys(this.#watched.plan.spec.pools)) {
      const had = this.#serving(id);
      this.#changed.set(id, { needs: had, had });
    }
  }

  /** After each commit, since the rule may want fewer for a moment only. */
  note(): void {
    const scheduler = this.#watched.host.rules?.scheduler;
    for (const [id, pool] of this.#changed) {
      pool.needs = Math.min(pool.needs, scheduler?.wantedWorkers(id) ?? pool.needs);
    }
  }

  /** Every second. */
  check(): void {
    this.note();
    if (!this.#watched.isCalm()) this.#changed.clear();
    const { budget, pools } = this.#watched.plan.spec;
    for (const [id, { needs, had }] of this.#changed) {
      // Without room for one more, one goes first.
      const mayLackRoom = budget.per_hour !== undefined || had >= (pools[id]?.max ?? 0);
      const least = mayLackRoom ? Math.max(Math.min(1, needs), needs - 1) : needs;
      const serving = this.#serving(id);
      if (serving >= least) continue;
      this.#watched.violated(
        'a changed pool never falls below what served',
        `${id}: ${serving} serve, ${needs} are needed of the ${had} that it had`,
      );
    }
  }

  #serving(id: string): number {
    const { queue } = this.#watched;
    const sessions = queue.share()?.sessions ?? [];
    return sessions.filter(
      ({ config_id, worker_id, state, capacity }) =>
        config_id === id && state !== 'draining' && capacity > 0 && !queue.cordoned.has(worker_id),
    ).length;
  }
}
