import type { BatchBacklog, BatchWait, PoolMemory } from '../rule-types.ts';
import { type Capacity, readyIn, type StartSeconds } from './capacity.ts';
import { arrivalsPerSecond, peakOver, serviceSeconds } from './memory.ts';
import { type Asked, plural, timeOfDay } from './round.ts';

/** The default of `scale_down_after`, ms, unless two starts take longer. */
const LEAST_WINDOW_MS = 300_000;
/**
 * The upper bound of that default, ms, since a clock that jumped or a silent queue makes starts look longer than they
 * are.
 */
const LONGEST_WINDOW_MS = 30 * 60_000;
/** While nothing waits, a pool has enough workers as long as arrivals keep at most this share of their slots busy. */
const ENOUGH = 0.95;

/** The number of workers that a pool should have, with its parts. */
export interface Target {
  /** The number of workers below which a launch is worth it. */
  workers: number;
  /** The number of workers that is reported: `workers`, or the one worker that is kept for lines of batches. */
  wanted: number;
  /** The number of workers that arrivals need, without those that only work off the backlog. */
  sustained: number;
  /** Whether the need is worth a launch; otherwise running workers are only kept. */
  isPressing: boolean;
  /** The number of running workers that are kept for batches. */
  floor: number;
  /** Lines of batches for which no worker is launched yet, and until when; null: there are none. */
  batch_wait: BatchWait | null;
  why: string;
  inputs: string;
}

export function targetOf(asked: Asked, memory: PoolMemory, capacity: Capacity, start: StartSeconds): Target {
  const { pool, market } = asked;
  const { spec } = pool;
  const { waiting = 0, running = 0, running_batch = 0, batches = [] } = pool.demand ?? {};
  const service = serviceSeconds(memory);
  const ready = capacity.ready.length + capacity.others;
  const have = ready + capacity.starting.length;
  const callers = workersForCallers({
    arrivals: arrivalsPerSecond(memory, windowOf(spec, start), market.now),
    service,
    waiting,
    running: running - running_batch,
    ready,
    ready_in: capacity.starting.map((launch) => readyIn(launch, start, market.now)),
    slots: spec.slots,
    utilization: spec.utilization,
    wanted_wait: spec.wanted_wait,
    start: start.p80,
  });
  const batch = workersForBatches(batches, running_batch, service, spec.slots, start.p80, market.now);
  const forCallers = spec.batch_only ? 0 : callers.workers;
  const most = spec.max + capacity.others;
  const bounded = (needed: number) =>
    Math.min(most, Math.max(spec.min, spec.batch_only ? 0 : needed, batch.workers));
  const workers = bounded(callers.workers);
  const floor = have > 0 ? Math.min(batch.floor, most) : 0;
  const wanted = Math.max(workers, floor);
  // A running worker takes the lines, and so does a worker that is launched for other jobs.
  const isWaiting = batch.begins_by !== null && batch.workers === 0 && have === 0 && workers === 0;
  const because = () => {
    if (batch.workers > forCallers)
      return `${Math.round(batch.backlog)} slot-seconds of batches wait: ${batch.why}`;
    if (workers === spec.min && spec.min > forCallers) return leastInWords(asked);
    if (floor > workers) return 'the one that is up stays for lines of batches';
    if (isWaiting) return linesInWords(batch, market.now);
    if (spec.batch_only && waiting > 0)
      return `workers are launched for batches alone, and ${plural(waiting, 'other job')} ${waiting === 1 ? 'waits' : 'wait'}`;
    return callersInWords(callers.busy, waiting);
  };
  return {
    workers,
    wanted,
    sustained: bounded(callers.sustained),
    floor,
    batch_wait: isWaiting ? { lines: batch.lines, until: batch.begins_by! } : null,
    isPressing:
      waiting > 0 || callers.busy > ENOUGH * have * spec.slots || have < Math.max(spec.min, batch.workers),
    why: `${plural(wanted, 'worker')} wanted: ${because()}.`,
    inputs: [
      `waiting ${waiting}, running ${running} (${running_batch} of batches)`,
      `busy slots ${callers.busy.toFixed(2)}, time in a slot ${service.toFixed(1)} s`,
      `backlog ${Math.round(callers.backlog)} slot-seconds, of batches ${Math.round(batch.backlog)}`,
      `ready ${ready}, starting ${capacity.starting.length}, draining ${capacity.draining.length}`,
      `start ${Math.round(start.p80)} s (p80 of ${start.count}), slots ${spec.slots}`,
    ].join('; '),
  };
}

/** Returns why at least this many workers are to run. */
function leastInWords({ pool: { spec, by_hand_until }, market }: Asked): string {
  const least = `at least ${spec.min} ${spec.min === 1 ? 'is' : 'are'} to run`;
  return by_hand_until === null
    ? least
    : `${least}, as an operator asked, until ${timeOfDay(by_hand_until, market.now)}`;
}

/** Returns what lines of batches wait for while nothing else needs a worker. */
function linesInWords({ lines, backlog, worth, begins_by }: BatchWorkers, now: number): string {
  const of = `${Math.round(backlog)} of the ${Math.round(worth)} slot-seconds that pay for a start`;
  return `${plural(lines, 'line')} of batches ${lines === 1 ? 'waits' : 'wait'}, ${of}; one is launched for them at ${timeOfDay(begins_by!, now)} at the latest`;
}

function callersInWords(busy: number, waiting: number): string {
  if (busy < 0.05 && waiting === 0) return 'callers keep no slots busy';
  return `callers keep ${busy.toFixed(1)} slots busy and ${waiting} wait`;
}

/** Returns how many workers are kept: the peak of recent targets, and the last worker as long as `keep_warm` says. */
export function floorOf(
  { pool, market }: Asked,
  memory: PoolMemory,
  target: Target,
  capacity: Capacity,
  start: StartSeconds,
): number {
  const { spec } = pool;
  const windowMs = windowOf(spec, start);
  const most = Math.max(target.workers, peakOver(memory, target.sustained, windowMs, market.now));
  const warmMs = spec.keep_warm === undefined ? windowMs : spec.keep_warm * 1000;
  const have = capacity.ready.length + capacity.starting.length + capacity.others;
  const isWarm = !spec.batch_only && market.now - memory.active_at < warmMs;
  if (have <= 1 || most === 0) return Math.max(target.workers, isWarm && have > 0 ? 1 : 0);
  return most;
}

type Windowed = Asked['pool']['spec'];

function windowOf({ scale_down_after }: Windowed, start: StartSeconds): number {
  if (scale_down_after !== undefined) return scale_down_after * 1000;
  return Math.min(LONGEST_WINDOW_MS, Math.max(LEAST_WINDOW_MS, 2000 * start.p80));
}

/** Returns whether workers may be ended: a worker is surplus only after a whole window of observation. */
export function canShrink(spec: Windowed, memory: PoolMemory, start: StartSeconds, now: number): boolean {
  return now - memory.since >= windowOf(spec, start);
}

/** The demand of a pool's callers, and the workers that it has. Times are in s. */
interface CallerDemand {
  /** The number of jobs that arrive a second. */
  arrivals: number;
  /** The time that a job occupies a slot. */
  service: number;
  waiting: number;
  /** The number of running jobs, without lines of batches. */
  running: number;
  ready: number;
  /** The time until each starting worker is expected to be ready. */
  ready_in: number[];
  /** The number of slots of a worker. */
  slots: number;
  /** The planned share of busy slots: u. */
  utilization: number;
  /** The time that a job should wait at most: G. */
  wanted_wait: number;
  /** The time from the decision to ready: C. */
  start: number;
}

interface CallerWorkers {
  /** The number of workers that arrivals need. */
  sustained: number;
  /** `sustained` plus the workers that work off the backlog. */
  workers: number;
  /** The number of slots that arrivals keep busy. */
  busy: number;
  /** The work of waiting jobs, slot-seconds. */
  backlog: number;
}

/** The shortest wait that is planned for, s: in less time a worker's slots achieve next to nothing. */
const LEAST_WAIT = 5;

/**
 * Returns how many workers callers need: enough for arrivals and, where jobs wait, enough to have worked off the
 * backlog by the time that a worker launched now has been ready for `wanted_wait`. A starting worker counts from when
 * it is expected to be ready, so that no second one is launched in its place.
 */
function workersForCallers(inputs: CallerDemand): CallerWorkers {
  const { arrivals, service, waiting, running, ready, ready_in, slots, utilization, start } = inputs;
  const busy = arrivals * service;
  const backlog = waiting * service;
  const sustained = Math.max(Math.ceil(busy / (utilization * slots) - 1e-9), waiting + running > 0 ? 1 : 0);
  if (backlog === 0) return { sustained, workers: sustained, busy, backlog };
  const wait = Math.max(LEAST_WAIT, inputs.wanted_wait);
  const horizon = start + wait;
  const capacity = ready_in.reduce(
    (sum, seconds) => sum + slots * Math.max(0, horizon - seconds),
    ready * slots * horizon,
  );
  const left = Math.max(0, backlog + busy * horizon - capacity);
  const more = ready + ready_in.length + Math.ceil(left / (slots * wait) - 1e-9);
  // More slots than jobs would be idle, whatever rate a few arrivals suggest.
  const useful = Math.ceil((waiting + running) / slots);
  return { sustained, workers: Math.max(sustained, Math.min(more, useful)), busy, backlog };
}

/** Batches launch a worker if their work takes this many times as long as a start. */
const STARTS_WORTH = 3;

interface BatchWorkers {
  /** The number of workers that batches need. */
  workers: number;
  /** The number of running workers that batches keep, 0 or 1. */
  floor: number;
  /** The work of all lines, slot-seconds. */
  backlog: number;
  /** The number of lines that have not begun to run. */
  lines: number;
  /** The work that makes the lines worth a start, slot-seconds. */
  worth: number;
  /** When a worker is launched for the lines, however few they are, epoch ms; null: there are none. */
  begins_by: number | null;
  why: string;
}

/**
 * Returns how many workers the lines of batches need. A start for one line costs more than the line, so batches launch
 * a worker only if there is work for several starts, or if a batch has to begin now to end within its window. The rule
 * plans to finish in half the time that is left.
 * @param service seconds that a line occupies a slot
 * @param slots the slots of a worker
 * @param start seconds from the decision to ready
 */
function workersForBatches(
  batches: BatchBacklog[],
  running: number,
  service: number,
  slots: number,
  start: number,
  now: number,
): BatchWorkers {
  let backlog = 0;
  let workers = 0;
  let begins_by: number | null = null;
  for (const { lines, ends_at } of [...batches].sort((one, other) => one.ends_at - other.ends_at)) {
    backlog += lines * service;
    if (lines === 0) continue;
    const left = Math.max(0, (ends_at - now) / 1000 - start);
    workers = Math.max(workers, Math.ceil(backlog / (slots * Math.max(left / 2, start))));
    const last = ends_at - 1000 * (backlog / slots + 2 * start);
    begins_by = Math.min(begins_by ?? last, last);
  }
  const worth = STARTS_WORTH * start * slots;
  const isLast = begins_by !== null && now >= begins_by;
  const known = {
    floor: backlog > 0 || running > 0 ? 1 : 0,
    backlog,
    lines: batches.reduce((sum, { lines }) => sum + lines, 0),
    worth,
    begins_by,
  };
  if (backlog < worth && !isLast)
    return { workers: 0, ...known, why: 'too little for a start, and not urgent' };
  return {
    workers,
    ...known,
    why: isLast ? 'it must begin now to end within its window' : 'it is worth a start',
  };
}
