import type { FleetView, PoolRow, WorkerRow } from '../protocol/fleet-view.ts';
import { COST_STEP_MS, isFinal, type LaunchRow } from '../protocol/scaling.ts';

/** The cost of machines, summed for a pool or a provider; US dollars. */
export interface Spend {
  machines: number;
  per_hour: number;
  /** The part of `per_hour` that pays for unused slots of ready workers. */
  idle_per_hour: number;
  /** The cost of the hour before the last full step, up to which the scheduler sums up a day too. */
  last_hour: number;
}

const HOUR_MS = 3_600_000;

/** Sums up the cost of launches. @param now epoch ms */
export function spendOf(launches: readonly LaunchRow[], workers: readonly WorkerRow[], now: number): Spend {
  const busy = new Map(workers.map((worker) => [worker.worker_id, busyShare(worker)]));
  const alive = launches.filter((launch) => !isFinal(launch));
  const until = now - (now % COST_STEP_MS);
  const isWorking = ({ state }: LaunchRow) => state === 'ready' || state === 'draining';
  return {
    machines: alive.length,
    per_hour: sum(alive, ({ price_per_hour }) => price_per_hour),
    idle_per_hour: sum(alive.filter(isWorking), ({ name, price_per_hour }) => {
      return price_per_hour * (1 - (busy.get(name) ?? 1));
    }),
    last_hour: sum(launches, (launch) => launch.price_per_hour * hoursWithin(launch, until - HOUR_MS, until)),
  };
}

/**
 * Returns US dollars for a million generated tokens over the newest hour; null: none was generated, or nothing was
 * paid.
 */
export function perMillionTokens(pool: PoolRow, { last_hour }: Spend): number | null {
  const { tokens_out } = pool.hour;
  return tokens_out === 0 || last_hour === 0 ? null : (last_hour / tokens_out) * 1e6;
}

/** Returns how many workers there are that no launcher has started, so that no spend of theirs is counted. */
export function uncounted({ workers, launches }: Pick<FleetView, 'workers' | 'launches'>): number {
  const launched = new Set(launches.map(({ name }) => name));
  return workers.filter(({ worker_id, state }) => state !== 'stopped' && !launched.has(worker_id)).length;
}

/** Returns all launches, the newest first. */
export function recentLaunches({ launches }: FleetView): LaunchRow[] {
  return [...launches].sort((a, b) => b.intended_at - a.intended_at);
}

/** Returns the share of a worker's slots in which jobs run; an unknown share counts as all. */
function busyShare({ running, slots }: WorkerRow): number {
  return running === null || !slots ? 1 : Math.min(1, running / slots);
}

/** Returns the hours between two times, epoch ms, for which a launch was paid. */
function hoursWithin(launch: LaunchRow, from: number, to: number): number {
  const began = launch.started_at ?? launch.accepted_at;
  if (began === null) return 0;
  const ended = launch.ended_at ?? (!isFinal(launch) ? to : launch.state_at);
  return Math.max(0, Math.min(ended, to) - Math.max(began, from)) / HOUR_MS;
}

function sum<T>(list: readonly T[], of: (one: T) => number): number {
  return list.reduce((total, one) => total + of(one), 0);
}
