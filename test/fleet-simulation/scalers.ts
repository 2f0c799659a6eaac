import { decide, EMPTY_STATE } from '../../src/scheduler/decide.ts';
import type { Launch } from '../../src/scheduler/launch.ts';
import { type Machine, newMachine, type SessionShare } from '../../src/scheduler/machines.ts';
import type { Observed, RuleState } from '../../src/scheduler/rule-types.ts';

import type { Change, Conditions, Scaler, Seen, Worker } from './trace-run.ts';

/** How much is paid for short waits: as in the spec of a pool. */
export interface Knobs {
  utilization: number;
  /** s */
  wanted_wait: number;
}

const NOTHING: Change = { launch: 0, drain: [], takeBack: [] };

/** The rule of src/scheduler, which sees rows as the scheduler keeps them. */
export function ours(conditions: Conditions, knobs: Knobs): Scaler {
  let state: RuleState = EMPTY_STATE;
  const machine = { provider: 'cloud', instance_type: 'gpu', gpus: 1, price_per_hour: 1 };
  const spec = {
    slots: conditions.slots,
    min: 0,
    max: conditions.max,
    ...knobs,
    batch_only: false,
    machines: [machine, { ...machine, instance_type: 'other' }],
  };
  return {
    every: 5000,
    decide(seen) {
      const alive = seen.workers.filter(({ state }) => state === 'ready' || state === 'draining');
      const observed: Observed = {
        budget: {},
        spent_today: 0,
        pools: [
          {
            config_id: 'chat',
            spec,
            paused: false,
            removed: false,
            by_hand_until: null,
            forgiven_at: null,
            versions: null,
            replaced_first: [],
            demand: { ...seen, running_batch: 0, batches: [] },
          },
        ],
        providers: [{ name: 'cloud', max: null, is_fresh: true, prices: {}, tells_prices: false }],
        launches: seen.workers.map(rowOf),
        machines: new Map(alive.map((worker) => [worker.name, machineOf(worker, conditions.slots)])),
        cordoned: {},
        dismissed: [],
      };
      const decided = decide(observed, state, seen.now);
      state = decided.state;
      const chosen = (...kinds: string[]) =>
        decided.decisions.flatMap((decision) =>
          kinds.includes(decision.kind) && 'launch_id' in decision
            ? seen.workers.filter(({ id }) => id === decision.launch_id)
            : [],
        );
      return {
        launch: decided.decisions.filter(({ kind }) => kind === 'launch').length,
        drain: chosen('drain', 'terminate'),
        takeBack: chosen('take_back'),
      };
    },
  };
}

function machineOf({ name, running }: Worker, capacity: number): Machine {
  const session: SessionShare = {
    worker_id: name,
    config_id: 'chat',
    state: 'ready',
    protocol: 'extended',
    capacity,
    running,
    connected_at: 0,
    models: [],
    adapters: null,
  };
  return { ...newMachine(name), session };
}

function rowOf(worker: Worker): Launch {
  const { id, name, state, launched_at, ready_at, ended_at } = worker;
  const failed = state === 'failed' || state === 'no_capacity';
  return {
    id,
    name,
    config_id: 'chat',
    provider: 'cloud',
    instance_type: 'gpu',
    state: state === 'starting' ? 'accepted' : failed ? 'failed' : state,
    state_at: ended_at ?? ready_at ?? launched_at,
    version: null,
    replaces: null,
    is_spot: false,
    is_stand_in: false,
    reason: '',
    price_per_hour: 1,
    external_id: id,
    intended_at: launched_at,
    requested_at: launched_at,
    accepted_at: launched_at,
    started_at: launched_at,
    registered_at: ready_at,
    ready_at,
    draining_at: null,
    terminating_at: null,
    ended_at,
    cause: state === 'no_capacity' ? 'no_capacity' : state === 'failed' ? 'exited' : null,
    exit_code: state === 'failed' ? 4 : null,
    detail: null,
  };
}

const DOWN_WINDOW_MS = 300_000;

/** The most that was asked for within the window, as HPA has it. */
class Stabilized {
  #asked: { at: number; want: number }[] = [];

  most(now: number, want: number): number {
    this.#asked = [...this.#asked.filter(({ at }) => at > now - DOWN_WINDOW_MS), { at: now, want }];
    return Math.max(...this.#asked.map((asked) => asked.want));
  }
}

/** HPA's, over a metric of waiting and running that KEDA reads: 75 % of all slots, all replicas counted. */
export function keda({ slots, max }: Conditions): Scaler {
  const window = new Stabilized();
  let metric = 0;
  let readAt = 0;
  return {
    every: 15_000,
    decide(seen) {
      if (seen.now - readAt >= 30_000) {
        metric = seen.waiting + seen.running;
        readAt = seen.now;
      }
      const have = up(seen).length;
      const want = Math.min(max, Math.ceil(metric / (0.75 * slots)));
      const least = window.most(seen.now, want);
      if (have > 0 && Math.abs(metric / (0.75 * slots * have) - 1) <= 0.1) return NOTHING;
      if (want > have) return { ...NOTHING, launch: Math.min(want - have, Math.max(4, have)) };
      return { ...NOTHING, drain: victims(seen, have - least) };
    },
  };
}

/** The same, from what is ready alone: what starts is not seen. */
export function readyOnly({ slots, max }: Conditions): Scaler {
  const window = new Stabilized();
  return {
    every: 15_000,
    decide(seen) {
      const ready = seen.workers.filter(({ state }) => state === 'ready').length;
      const want = Math.min(max, Math.ceil((seen.waiting + seen.running) / (0.75 * slots)));
      const least = window.most(seen.now, want);
      if (want > ready) return { ...NOTHING, launch: want - ready };
      return { ...NOTHING, drain: victims(seen, up(seen).length - least) };
    },
  };
}

/** One more where none is starting and little is free, one less where the others could take its load. */
export function plusOne({ slots, max }: Conditions): Scaler {
  const window = new Stabilized();
  return {
    every: 15_000,
    decide(seen) {
      const have = up(seen).length;
      const isStarting = seen.workers.some(({ state }) => state === 'starting');
      const load = seen.waiting + seen.running;
      const least = window.most(seen.now, Math.ceil(load / (0.75 * slots)));
      if (!isStarting && have < max && (seen.waiting > 0 || load > 0.75 * slots * have)) {
        return { ...NOTHING, launch: 1 };
      }
      return { ...NOTHING, drain: victims(seen, Math.min(1, have - least)) };
    },
  };
}

function up({ workers }: Seen): Worker[] {
  return workers.filter(({ state }) => state === 'ready' || state === 'starting');
}

function victims(seen: Seen, count: number): Worker[] {
  const rank = (worker: Worker) => (worker.state === 'starting' ? -1 : worker.running);
  return up(seen)
    .sort((one, other) => rank(one) - rank(other) || one.idle_since - other.idle_since)
    .slice(0, Math.max(0, count));
}
