import type { Launch } from '../launch.ts';
import type { SessionShare } from '../machines.ts';
import type { Demand, PoolMemory } from '../rule-types.ts';

/** Observations more than this many ms apart, or a clock set back, break the continuous record. */
const GAP_MS = 60_000;
/** Arrivals are counted over the last this many ms. */
const LONG_MS = 300_000;
const SHORT_MS = 60_000;
const BURST_MS = 15_000;

/**
 * Before any job has ended, a job is assumed to occupy a slot for this many ms; the assumption has the weight of
 * PRIOR_JOBS jobs.
 */
const PRIOR_SERVICE_MS = 10_000;
const PRIOR_JOBS = 5;
/** After this many jobs the older ones count half, so that the learnt time follows a change of the work. */
const FADE_AFTER_JOBS = 500;

/**
 * Returns the rule's memory of a pool after a reconciliation. The argument `before` is not changed.
 * @param ready launches whose workers should be connected
 */
export function remember(
  before: PoolMemory | undefined,
  demand: Demand,
  sessions: SessionShare[],
  ready: Launch[],
  now: number,
): PoolMemory {
  const elapsed = now - (before?.at ?? 0);
  const isContinuous = before !== undefined && elapsed >= 0 && elapsed <= GAP_MS;
  const memory: PoolMemory = isContinuous
    ? { ...fresh(now), ...before, at: now }
    : { ...fresh(now), ...(before && { busy_slot_ms: before.busy_slot_ms, ended: before.ended }) };
  countArrivals(memory, demand.submitted, now);
  learnService(memory, demand, isContinuous ? elapsed : 0);
  if (demand.waiting + demand.running - demand.running_batch > 0) memory.active_at = now;
  memory.idle_since = Object.fromEntries(
    sessions
      .filter(({ running }) => running === 0)
      .map(({ worker_id }) => [worker_id, memory.idle_since[worker_id] ?? now]),
  );
  const connected = new Set(sessions.map(({ worker_id }) => worker_id));
  memory.away_since = Object.fromEntries(
    ready
      .filter(({ name }) => !connected.has(name))
      .map(({ name }) => [name, memory.away_since[name] ?? now]),
  );
  return memory;
}

function fresh(now: number): PoolMemory {
  return {
    at: now,
    since: now,
    submitted: [],
    peaks: [],
    busy_slot_ms: 0,
    ended: 0,
    last: null,
    active_at: now,
    idle_since: {},
    away_since: {},
    no_room_since: null,
  };
}

function countArrivals(memory: PoolMemory, total: number, now: number): void {
  const newest = memory.submitted.at(-1);
  // A smaller total means another queue, or one restored from a copy.
  const samples = newest && newest[1] > total ? [] : memory.submitted;
  const kept = samples.filter(([at], index) => {
    const next = samples[index + 1];
    return at >= now - LONG_MS || (next !== undefined && next[0] > now - LONG_MS) || next === undefined;
  });
  // If nothing new was submitted, the newest sample stays valid, so that an idle pool's memory does not change.
  memory.submitted = kept.at(-1)?.[1] === total ? kept : [...kept, [now, total]];
}

/** Adds up busy slots over time. By Little's law, the mean number of running jobs is arrivals × time in a slot. */
function learnService(memory: PoolMemory, { running, ended }: Demand, elapsedMs: number): void {
  const { last } = memory;
  if (last !== null && ended >= last.ended) {
    memory.busy_slot_ms += ((last.running + running) / 2) * elapsedMs;
    memory.ended += ended - last.ended;
  }
  if (memory.ended > FADE_AFTER_JOBS) {
    memory.busy_slot_ms /= 2;
    memory.ended /= 2;
  }
  memory.last = { ended, running };
}

/** Returns the time that a job occupies a slot, s. */
export function serviceSeconds({ busy_slot_ms, ended }: PoolMemory): number {
  return (busy_slot_ms + PRIOR_JOBS * PRIOR_SERVICE_MS) / (ended + PRIOR_JOBS) / 1000;
}

/**
 * Returns the rate of arrivals, jobs a second: the highest of the rates over five minutes, over one, and over the last
 * seconds; in the last seconds only what chance does not explain counts.
 * @param mostMs older jobs do not count: after this long without a job the rate is 0
 */
export function arrivalsPerSecond(memory: PoolMemory, mostMs: number, now: number): number {
  const within = (ms: number) => {
    const newest = memory.submitted.at(-1);
    const first = memory.submitted.findLast(([at]) => at <= now - ms) ?? memory.submitted[0];
    return newest && first ? newest[1] - first[1] : 0;
  };
  const rate = (longest: number) => {
    const ms = Math.max(BURST_MS, Math.min(longest, mostMs));
    // If the pool was observed for less than that, the jobs are spread over the observed time, but not over an instant.
    return within(ms) / Math.min(ms, Math.max(now - memory.since, BURST_MS));
  };
  const burst = within(BURST_MS);
  return 1000 * Math.max(rate(LONG_MS), rate(SHORT_MS), (burst - 2 * Math.sqrt(burst)) / BURST_MS);
}

/** Records how many workers arrivals need now. @returns the peak within the window */
export function peakOver(memory: PoolMemory, workers: number, windowMs: number, now: number): number {
  memory.peaks = [
    ...memory.peaks.filter(([at, earlier]) => at > now - windowMs && earlier > workers),
    [now, workers],
  ];
  return memory.peaks[0]?.[1] ?? workers;
}
