import type { SessionFacts } from '../facts.ts';
import type { Launch } from '../launch.ts';

import { isReliedUpon, isStarting, type StartSeconds } from './starts.ts';

/** A ready worker that is disconnected for this long no longer counts as capacity, ms. */
const AWAY_MS = 60_000;
/** After this long it is terminated: its container may run, but it serves no jobs. */
const LOST_MS = 10 * 60_000;

/** The workers of a pool, by what can be expected of them. */
export interface Capacity {
  /** Launches that take jobs. */
  ready: Launch[];
  /** Workers that take jobs and were not launched by the scheduler. */
  others: number;
  /** Starting, and expected to become ready. */
  starting: Launch[];
  /** Starting for much longer than usual. */
  late: Launch[];
  /** May be taken back. */
  draining: Launch[];
  /** Ready before, and disconnected for too long. */
  lost: Launch[];
}

/** @param isHeard whether its provider has told lately what it has */
export function capacityOf(
  launches: Launch[],
  sessions: SessionFacts[],
  awaySince: Record<string, number>,
  start: StartSeconds,
  isHeard: (launch: Launch) => boolean,
  now: number,
): Capacity {
  const byId = new Map(sessions.map((session) => [session.worker_id, session]));
  const awayMs = ({ name }: Launch) => now - (awaySince[name] ?? now);
  const isLeaving = ({ name }: Launch) => byId.get(name)?.state === 'draining';
  const names = new Set(launches.map(({ name }) => name));
  const starting = launches.filter(isStarting);
  const isReliable = (launch: Launch) => isReliedUpon(launch, start, isHeard(launch), now);
  const ready = launches.filter(({ state }) => state === 'ready');
  return {
    ready: ready.filter((launch) => !isLeaving(launch) && awayMs(launch) <= AWAY_MS),
    others: sessions.filter(
      ({ worker_id, state, capacity }) => !names.has(worker_id) && state !== 'draining' && capacity > 0,
    ).length,
    starting: starting.filter(isReliable),
    late: starting.filter((launch) => !isReliable(launch)),
    draining: launches.filter((launch) => launch.state === 'draining' && !isLeaving(launch)),
    lost: ready.filter((launch) => awayMs(launch) > LOST_MS),
  };
}
