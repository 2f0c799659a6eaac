import type { Launch } from '../launch.ts';
import type { ObservedSession } from '../observed.ts';
import { isReliedUpon, isStarting, type StartSeconds } from './starts.ts';

/** A ready worker that has not been connected for so long is not counted on any more, ms. */
const AWAY_MS = 60_000;
/** And after so long it is given up: its container may run, but it serves nobody. */
const LOST_MS = 10 * 60_000;

/** What a config has, and what is under way. */
export interface Capacity {
  /** Launches that take jobs. */
  ready: Launch[];
  /** Workers that take jobs and were not launched by the scheduler. */
  others: number;
  /** On their way, and relied upon. */
  starting: Launch[];
  /** On their way for much longer than others. */
  late: Launch[];
  /** May be taken back. */
  draining: Launch[];
  /** Ready once, and away for too long. */
  lost: Launch[];
}

/** @param isHeard whether its provider has told lately what it has */
export function capacityOf(
  launches: Launch[],
  sessions: ObservedSession[],
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
      ({ worker_id, state, slots }) => !names.has(worker_id) && state !== 'draining' && slots > 0,
    ).length,
    starting: starting.filter(isReliable),
    late: starting.filter((launch) => !isReliable(launch)),
    draining: launches.filter((launch) => launch.state === 'draining' && !isLeaving(launch)),
    lost: ready.filter((launch) => awayMs(launch) > LOST_MS),
  };
}
