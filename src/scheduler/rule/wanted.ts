import type { ConfigMemory } from '../observed.ts';
import { wantForBatches } from './batch.ts';
import type { Capacity } from './capacity.ts';
import { arrivalsPerSecond, mostWanted, serviceSeconds } from './memory.ts';
import type { Asked } from './round.ts';
import { readyIn, type StartSeconds } from './starts.ts';
import { wantForCallers } from './want.ts';
import { plural } from './words.ts';

/** Unless the spec says so: nothing is given up that was needed within so long, ms, or within two starts. */
const LEAST_WINDOW_MS = 300_000;
/** However long starts seem to take: the clock may have jumped in the middle of one, or the queue been silent, ms. */
const LONGEST_WINDOW_MS = 30 * 60_000;
/** Workers of which fewer slots than these are kept busy by arrivals alone are enough while nothing waits. */
const ENOUGH = 0.95;

interface Wanted {
  workers: number;
  /** Without those that are only to work off what waits. */
  lasting: number;
  /** Launched for, and not only kept. */
  isPressing: boolean;
  /** What is up is kept up to this number. */
  keeps: number;
  why: string;
  inputs: string;
}

export function wanted(asked: Asked, memory: ConfigMemory, capacity: Capacity, start: StartSeconds): Wanted {
  const { config, market } = asked;
  const { spec } = config;
  const { waiting = 0, running = 0, running_batch = 0, batches = [] } = config.demand ?? {};
  const service = serviceSeconds(memory);
  const ready = capacity.ready.length + capacity.others;
  const have = ready + capacity.starting.length;
  const callers = wantForCallers({
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
  const batch = wantForBatches(batches, running_batch, service, spec.slots, start.p80, market.now);
  const forCallers = spec.batch_only ? 0 : callers.workers;
  const most = spec.max + capacity.others;
  const bounded = (callersWant: number) =>
    Math.min(most, Math.max(spec.min, spec.batch_only ? 0 : callersWant, batch.workers));
  const workers = bounded(callers.workers);
  const because =
    batch.workers > forCallers
      ? `${Math.round(batch.backlog)} slot-seconds of batches wait: ${batch.why}`
      : workers === spec.min && spec.min > forCallers
        ? `at least ${spec.min} are to run`
        : callersInWords(callers.busy, waiting);
  return {
    workers,
    lasting: bounded(callers.lasting),
    keeps: have > 0 ? Math.min(batch.keeps, most) : 0,
    isPressing:
      waiting > 0 || callers.busy > ENOUGH * have * spec.slots || have < Math.max(spec.min, batch.workers),
    why: `${plural(workers, 'worker')} wanted: ${because}.`,
    inputs: [
      `waiting ${waiting}, running ${running} (${running_batch} of batches)`,
      `busy slots ${callers.busy.toFixed(2)}, time in a slot ${service.toFixed(1)} s`,
      `backlog ${Math.round(callers.backlog)} slot-seconds, of batches ${Math.round(batch.backlog)}`,
      `ready ${ready}, starting ${capacity.starting.length}, draining ${capacity.draining.length}`,
      `start ${Math.round(start.p80)} s (p80 of ${start.count}), slots ${spec.slots}`,
    ].join('; '),
  };
}

function callersInWords(busy: number, waiting: number): string {
  if (busy < 0.05 && waiting === 0) return 'callers keep no slots busy';
  return `callers keep ${busy.toFixed(1)} slots busy and ${waiting} wait`;
}

/** How many are kept, given what was wanted lately: the last one as long as it is kept warm. */
export function kept(
  { config, market }: Asked,
  memory: ConfigMemory,
  want: Wanted,
  capacity: Capacity,
  start: StartSeconds,
): number {
  const { spec } = config;
  const windowMs = windowOf(spec, start);
  const most = Math.max(want.workers, mostWanted(memory, want.lasting, windowMs, market.now));
  const warmMs = spec.keep_warm === undefined ? windowMs : spec.keep_warm * 1000;
  const have = capacity.ready.length + capacity.starting.length + capacity.others;
  const isWarm = !spec.batch_only && market.now - memory.active_at < warmMs;
  if (have <= 1 || most === 0) return Math.max(want.workers, isWarm && have > 0 ? 1 : 0);
  return most;
}

type Windowed = Asked['config']['spec'];

function windowOf({ scale_down_after }: Windowed, start: StartSeconds): number {
  if (scale_down_after !== undefined) return scale_down_after * 1000;
  return Math.min(LONGEST_WINDOW_MS, Math.max(LEAST_WINDOW_MS, 2000 * start.p80));
}

/** Only what was observed for a whole window is known not to be needed. */
export function canShrink(spec: Windowed, memory: ConfigMemory, start: StartSeconds, now: number): boolean {
  return now - memory.since >= windowOf(spec, start);
}
