import type { Heartbeat } from '../../../src/protocol/index.ts';
import { decide, EMPTY_STATE } from '../../../src/scheduler/decide.ts';
import { type Launch, nameOf } from '../../../src/scheduler/launch.ts';
import { newMachine, type SessionShare } from '../../../src/scheduler/machines.ts';
import type {
  Decided,
  Demand,
  Observed,
  ObservedPool,
  RuleState,
} from '../../../src/scheduler/rule-types.ts';

export const NOW = Date.UTC(2026, 0, 5, 12);
export const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

const MACHINE = { provider: 'here', instance_type: 'small', gpus: 1, price_per_hour: 1 };

export function demand(given: Partial<Demand> = {}): Demand {
  return { waiting: 0, running: 0, running_batch: 0, submitted: 0, ended: 0, batches: [], ...given };
}

export function pool(given: Partial<ObservedPool['spec']> = {}, id = 'chat'): ObservedPool {
  const spec = {
    slots: 4,
    min: 0,
    max: 8,
    wanted_wait: 30,
    utilization: 0.85,
    batch_only: false,
    machines: [MACHINE],
    ...given,
  };
  return {
    config_id: id,
    spec,
    paused: false,
    removed: false,
    by_hand_until: null,
    forgiven_at: null,
    versions: null,
    replaced_first: [],
    demand: demand(),
  };
}

let made = 0;

/** A launch in a state; its times are so long ago that it is neither new nor overdue. */
export function launch(state: Launch['state'], given: Partial<Launch> = {}): Launch {
  made += 1;
  const id = `l${String(made).padStart(9, '0')}`;
  const reached = (...states: Launch['state'][]) => (states.includes(state) ? NOW - MINUTE : null);
  return {
    id,
    name: nameOf('inst', given.config_id ?? 'chat', id),
    config_id: 'chat',
    provider: 'here',
    instance_type: 'small',
    state,
    state_at: NOW - MINUTE,
    reason: '',
    version: null,
    replaces: null,
    is_spot: false,
    is_stand_in: false,
    price_per_hour: 1,
    external_id: null,
    intended_at: NOW - 2 * MINUTE,
    requested_at: reached('requested', 'accepted', 'registered', 'ready', 'draining', 'terminating', 'gone'),
    accepted_at: reached('accepted', 'registered', 'ready', 'draining', 'terminating', 'gone'),
    started_at: null,
    registered_at: reached('registered', 'ready', 'draining', 'terminating', 'gone'),
    ready_at: reached('ready', 'draining', 'terminating', 'gone'),
    draining_at: reached('draining'),
    terminating_at: reached('terminating'),
    ended_at: reached('gone', 'failed'),
    cause: null,
    exit_code: null,
    detail: null,
    ...given,
  };
}

export function session(of: Launch, given: Partial<SessionShare> = {}): SessionShare {
  return {
    worker_id: of.name,
    config_id: of.config_id,
    state: 'ready',
    capacity: 4,
    running: 0,
    connected_at: NOW - HOUR,
    protocol: 'extended',
    models: [],
    adapters: null,
    ...given,
  };
}

/** Machines whose workers have sent no heartbeat. @param speed of each, tokens a second, where they have */
export function machinesOf(sessions: SessionShare[], speed: number | null = null): Observed['machines'] {
  return new Map(
    sessions.map((session) => {
      const { worker_id } = session;
      const beat: Heartbeat = { instance_id: worker_id, status: 'running', tokens_per_second: speed ?? 0 };
      return [worker_id, { ...newMachine(worker_id), session, heartbeat: speed ? beat : null }];
    }),
  );
}

export function observed(given: Partial<Observed> = {}): Observed {
  return {
    budget: {},
    spent_today: 0,
    pools: [pool()],
    providers: [{ name: 'here', max: null, is_fresh: true, prices: {}, tells_prices: false }],
    launches: [],
    machines: new Map(),
    cordoned: {},
    dismissed: [],
    ...given,
  };
}

/** The same observation every 5 s for so long, and what is decided of it last. */
export function decideAfter(ms: number, of: Observed, state: RuleState = EMPTY_STATE): Decided {
  let decided = decide(of, state, NOW - ms);
  for (let at = NOW - ms + 5000; at <= NOW; at += 5000) decided = decide(of, decided.state, at);
  return decided;
}
