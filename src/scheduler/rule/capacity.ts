import type { SessionFacts } from '../facts.ts';
import type { Launch } from '../launch.ts';

import { isReliedUpon, isStarting, type StartSeconds } from './starts.ts';

/** A ready worker that is disconnected for this many ms no longer counts as capacity. */
const AWAY_MS = 60_000;
/** A ready worker that is disconnected for this many ms is terminated: its container may run, but it serves no jobs. */
const LOST_MS = 10 * 60_000;

/** The workers of a pool, by what can be expected of them. */
export interface Capacity {
  /** Launches that take jobs. */
  ready: Launch[];
  /** The number of workers that take jobs and were not launched by the scheduler. */
  others: number;
  /** Launches that are starting, and expected to become ready. */
  starting: Launch[];
  /** Launches that have been starting for much longer than usual. */
  late: Launch[];
  /** Draining launches, which may be taken back. */
  draining: Launch[];
  /** Launches that were ready before, and have been disconnected for too long. */
  lost: Launch[];
}

/** @param isHeard returns whether the launch's provider has a fresh list */
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
