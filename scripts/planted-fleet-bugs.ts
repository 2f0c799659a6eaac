import type { Bug } from './planted-batch-bugs.ts';

/** Faults of one line in scheduler and launcher, each of which `npm run simulate:fleet` must catch. */
export const FLEET_BUGS: readonly Bug[] = [
  {
    name: 'fleet: what starts is no capacity',
    file: 'src/scheduler/rule/capacity.ts',
    line: 'starting: starting.filter((launch) => isReliedUpon(launch, start, now)),',
    becomes: 'starting: [],',
  },
  {
    name: 'fleet: max is passed over',
    file: 'src/scheduler/rule/round.ts',
    line: 'const count = Math.min(missing, spec.max - alive, most);',
    becomes: 'const count = Math.min(missing + alive * 0, most);',
  },
  {
    name: 'fleet: the budget an hour is not looked at',
    file: 'src/scheduler/rule/budget.ts',
    line: 'if (per_hour !== undefined && after > per_hour + 1e-9)',
    becomes: 'if (per_hour !== undefined && after < 0)',
  },
  {
    name: 'fleet: failures in a row stop nothing',
    file: 'src/scheduler/rule/breaker.ts',
    line: 'if (failures >= STOP_AFTER) {',
    becomes: 'if (failures < 0) {',
    first_seed: 18,
  },
  {
    name: 'fleet: a model that does not exist is tried again',
    file: 'src/scheduler/rule/breaker.ts',
    line: "if (blame(newest, now) === 'config_at_once') return",
    becomes: "if (blame(newest, now) === 'undecided') return",
    first_seed: 35,
  },
  {
    name: 'fleet: an idle worker is kept for ever',
    file: 'src/scheduler/rule/config.ts',
    line: 'else if (keep < round.have && ',
    becomes: 'else if (keep < 0 && ',
  },
  {
    name: 'fleet: a silent queue is taken at its last word',
    file: 'src/scheduler/observe.ts',
    line: 'isKnown ? demandOf(',
    becomes: 'isKnown || true ? demandOf(',
    first_seed: 47,
  },
  {
    name: 'fleet: an old list is as good as a new one',
    file: 'src/scheduler/observe.ts',
    line: 'is_fresh: core.providers.isFresh(name, now),',
    becomes: 'is_fresh: core.providers.isFresh(name, now) || true,',
    first_seed: 15,
  },
  {
    name: 'fleet: an order that was given out is not given again',
    file: 'src/scheduler/orders.ts',
    line: "return state === 'intended' || state === 'requested' ||",
    becomes: "return state === 'intended' ||",
    first_seed: 24,
  },
  {
    name: 'fleet: a termination is ordered once',
    file: 'src/scheduler/orders.ts',
    line: 'core.launches.save({ ...launch, ...given, order_due_at: now + AGAIN_AFTER_MS });',
    becomes: 'core.launches.save({ ...launch, ...given, order_due_at: null });',
    first_seed: 13,
  },
  {
    name: 'fleet: a busy worker has no time to finish',
    file: 'src/scheduler/act.ts',
    line: '> DRAIN_LIMIT_MS;',
    becomes: '> 0 * DRAIN_LIMIT_MS;',
  },
  {
    name: 'fleet: a machine that nobody wants is left running',
    file: 'src/scheduler/reaper.ts',
    line: 'core.strays.save({ ...known, is_sure: true });',
    becomes: '',
    first_seed: 27,
  },
  {
    name: 'fleet: a worker that drains is given jobs',
    file: 'src/scheduler/act.ts',
    line: ".filter(({ state }) => state === 'draining' || state === 'terminating')",
    becomes: '.filter(() => false)',
  },
];
