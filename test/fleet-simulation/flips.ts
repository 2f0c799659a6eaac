import type { LaunchRecord } from '../../src/scheduler/launch.ts';

/** Up and down so soon after each other is for nothing, ms: as long as a start is taken to last. */
const WITHIN_MS = 180_000;

/** How often pools went down soon after they had gone up, or up soon after they had gone down. */
export class Flips {
  readonly #newest = new Map<string, { to: 'up' | 'down'; at: number }>();
  readonly #counts = new Map<string, number>();

  /** @returns how often its pool has flipped */
  changed(before: LaunchRecord | undefined, row: LaunchRecord, now: number): number {
    const { config_id } = row;
    const to = directionOf(before, row);
    const count = this.#counts.get(config_id) ?? 0;
    if (!to) return count;
    const newest = this.#newest.get(config_id);
    this.#newest.set(config_id, { to, at: now });
    if (!newest || newest.to === to || now - newest.at > WITHIN_MS) return count;
    this.#counts.set(config_id, count + 1);
    return count + 1;
  }
}

/** Null: it is the work of chance, or goes on as it was. */
function directionOf(before: LaunchRecord | undefined, row: LaunchRecord): 'up' | 'down' | null {
  // One that comes in the place of another makes its pool no larger.
  if (!before) return row.replaces === null ? 'up' : null;
  if (before.state === 'draining' && row.state === 'ready') return 'up';
  if (before.state === 'ready' && row.state === 'draining') return 'down';
  const isGivenUp = before.ready_at === null && row.cause === null;
  return isGivenUp && before.terminating_at === null && isLeaving(row) ? 'down' : null;
}

function isLeaving({ state }: LaunchRecord): boolean {
  return state === 'terminating' || state === 'gone';
}
