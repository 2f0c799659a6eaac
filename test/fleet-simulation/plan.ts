import { FleetSpec } from '../../src/scheduler/spec.ts';
import { Random } from '../support/random.ts';
import { drawRollouts, drawUpdate, type PlannedRollout } from './rollout-plan.ts';
import { drawSpot, SPOT_KINDS, type SpotKind } from './spot-plan.ts';

/** What goes wrong, and when. Times in s from the beginning. */
export interface Fault {
  kind: FaultKind;
  at: number;
  /** How long; those of one moment or of a number of calls have 0. */
  lasts: number;
  provider: 'cloud' | 'other';
  /** Of calls, jumps and the like. */
  size: number;
}

const FAULT_KINDS = [
  'provider_outage',
  'no_capacity',
  'created_but_5xx',
  'created_but_error',
  'throttled',
  'stale_lists',
  'destroy_fails',
  'slow_starts',
  'stuck_starts',
  'restarts_for_ever',
  'machine_vanishes',
  'worker_away',
  'queue_silent',
  'scheduler_killed',
  'scheduler_dies_in_steps',
  'launcher_killed',
  'launcher_cut_off',
  'answers_lost',
  'orders_doubled',
  'clock_forward',
  'clock_back',
] as const;
/** The same of what lies between queue and scheduler. */
const SEAM_KINDS = [
  'queue_killed',
  'reports_lost',
  'objects_slow',
  /** An operator drains a pool while it works, and something befalls queue, scheduler or workers a moment later. */
  'operator_drains',
  /** The fleet object begins anew with the queue's next report, which does not fail. */
  'fleet_evicted',
] as const;
/** An operator changes what the workers of every pool are started with. Nothing goes wrong by that. */
const CHANGE_KIND = 'pools_changed';
/** Of these a plan has one each now and then, whatever else it has. */
const RARE_KINDS = ['launcher_dies_in_calls', 'lists_empty', 'slow_ends', 'machine_doubled'] as const;
type FaultKind =
  | (typeof FAULT_KINDS | typeof RARE_KINDS | typeof SEAM_KINDS)[number]
  | SpotKind
  | typeof CHANGE_KIND;

/** `bad_model`: every container ends with exit code 9; `broken`: with 4. */
type Soundness = 'sound' | 'bad_model' | 'broken';

export interface PlannedJob {
  /** s from the beginning. */
  at: number;
  /** s */
  takes: number;
  /** Its caller waits on a connection; else it is stored. */
  waits: boolean;
}

export interface FleetPlan {
  seed: number;
  spec: FleetSpec;
  soundness: Record<string, Soundness>;
  /** Median of a start, s. */
  start: number;
  /** Whether the queue knows tokens: without them a worker that was given up may register. */
  hasTokens: boolean;
  /** By pool. */
  jobs: Record<string, PlannedJob[]>;
  faults: Fault[];
  rollouts: PlannedRollout[];
  /** Work and faults come for so long. Once no job runs any more it is calm for `CALM_SECONDS`. */
  seconds: number;
}

/** Longer than the longest scale-down window and what it takes to end a machine. */
export const CALM_SECONDS = 2700;
const SECONDS = 2700;
/** Of a job. */
const MEAN_SECONDS = 17;
/** Share of the jobs whose caller waits. */
const CALLERS = 0.4;

export function drawPlan(seed: number): FleetPlan {
  const random = new Random(seed, 'plan');
  const start = random.pick([20, 60, 180]);
  const pools: Record<string, object> = {};
  const jobs: FleetPlan['jobs'] = {};
  const soundness: FleetPlan['soundness'] = {};
  for (const id of ['chat', 'code'].slice(0, random.int(1, 2))) {
    const max = random.int(1, 6);
    const slots = random.int(1, 4);
    const spot = drawSpot(seed, id);
    pools[id] = {
      model: 'model',
      slots,
      max,
      min: random.chance(0.15) ? 1 : 0,
      machines: [
        { provider: 'cloud', instance_type: 'small', price_per_hour: 1 },
        ...(random.chance(0.6) ? [{ provider: 'other', instance_type: 'big', price_per_hour: 2 }] : []),
        ...spot.machines,
      ],
      ...spot.pool,
      update: drawUpdate(seed, id),
    };
    soundness[id] = random.chance(0.85) ? 'sound' : random.pick(['bad_model', 'broken']);
    jobs[id] = drawJobs(random, max * slots, new Random(seed, `callers ${id}`));
  }
  const spec = FleetSpec.parse({
    budget: { ...(random.chance(0.3) && { per_hour: random.int(2, 6) }), ...drawBudgetOfDay(seed) },
    providers: { cloud: { driver: 'dstack', url: 'http://dstack.example.com' }, other: { driver: 'vast' } },
    pools,
  });
  const faults = Array.from({ length: random.int(0, 5) }, () => drawFault(random, random.pick(FAULT_KINDS)));
  for (const kind of [...RARE_KINDS, ...SEAM_KINDS, CHANGE_KIND] as const) {
    const rare = new Random(seed, kind);
    if (rare.chance(0.2)) faults.push(drawFault(rare, kind));
  }
  const hasSpot = Object.values(spec.pools).some((pool) => pool.spot !== undefined);
  for (const kind of hasSpot ? SPOT_KINDS : []) {
    const random = new Random(seed, kind);
    for (let count = random.int(0, 3); count > 0; count--) faults.push(drawFault(random, kind));
  }
  return {
    seed,
    spec,
    soundness,
    start,
    hasTokens: random.chance(0.7),
    jobs,
    faults,
    rollouts: drawRollouts(seed),
    seconds: SECONDS,
  };
}

/** Of one slot. */
export function secondsOfWork({ jobs }: FleetPlan): number {
  return Object.values(jobs)
    .flat()
    .reduce((sum, { takes }) => sum + takes, 0);
}

/** Seldom, and then not enough for all the work there may be. */
function drawBudgetOfDay(seed: number): { per_day?: number } {
  const random = new Random(seed, 'budget of a day');
  return random.chance(0.15) ? { per_day: random.int(1, 4) } : {};
}

/** Some minutes of work, a pause, and some minutes more; half of all slots have enough to do at most. */
function drawJobs(random: Random, slots: number, callers: Random): PlannedJob[] {
  const jobs: PlannedJob[] = [];
  const perSecond = Math.min(random.pick([0.02, 0.1, 0.3]), (0.5 * slots) / MEAN_SECONDS);
  const pause = { from: random.int(400, 1000), to: random.int(1100, 2200) };
  for (let at = random.int(1, 120); at < SECONDS; at += random.wait(1000 / perSecond) / 1000) {
    if (at < pause.from || at > pause.to)
      jobs.push({
        at,
        takes: random.wait(MEAN_SECONDS * 1000, 120_000) / 1000,
        waits: callers.chance(CALLERS),
      });
  }
  return jobs;
}

function drawFault(random: Random, kind: FaultKind): Fault {
  const lasts: Partial<Record<FaultKind, number>> = {
    provider_outage: 600,
    no_capacity: random.int(60, 900),
    stale_lists: 600,
    slow_starts: 600,
    slow_ends: 900,
    stuck_starts: 300,
    restarts_for_ever: 900,
    worker_away: random.int(5, 300),
    queue_silent: random.int(60, 900),
    scheduler_dies_in_steps: 300,
    launcher_cut_off: random.int(30, 300),
    orders_doubled: 600,
    lists_empty: 900,
    objects_slow: 300,
    operator_drains: random.int(5, 120),
  };
  return {
    kind,
    at: random.int(30, SECONDS - 600),
    lasts: lasts[kind] ?? 0,
    provider: random.chance(0.75) ? 'cloud' : 'other',
    size: random.int(1, 4),
  };
}
