import { describe, expect, it } from 'vitest';
import { decide, EMPTY_STATE } from '../../../src/scheduler/decide.ts';
import { type Launch, newLaunch, storedLaunch } from '../../../src/scheduler/launch.ts';
import type { Decided, Observed, ObservedPool } from '../../../src/scheduler/rule-types.ts';
import { decideAfter, demand, launch, MINUTE, machinesOf, NOW, observed, pool, session } from './observe.ts';

const HOUR = 60 * MINUTE;
const ON_DEMAND = { provider: 'here', instance_type: 'small', gpus: 1, price_per_hour: 1 };
const SPOT = { ...ON_DEMAND, spot: true, price_per_hour: 0.4 };
const MIXED = { machines: [ON_DEMAND, SPOT], slots: 1 };

const provider = (name: string) => ({
  name,
  max: null,
  is_fresh: true,
  prices: {},
  tells_prices: false,
});
const PROVIDERS = [provider('here'), provider('there')];

/** A pool whose callers keep this many workers busy, of a slot each. */
function busy(workers: number, spec: Partial<ObservedPool['spec']> = {}): ObservedPool {
  return { ...pool({ ...MIXED, min: workers, ...spec }), demand: demand({ running: workers }) };
}

function of(launches: Launch[], observedPool: ObservedPool, more: Partial<Observed> = {}): Observed {
  const up = launches.filter(({ state }) => state === 'ready' || state === 'draining');
  return observed({
    launches,
    pools: [observedPool],
    providers: PROVIDERS,
    machines: machinesOf(up.map((one) => session(one, { running: 1 }))),
    ...more,
  });
}

/** What is decided at once, and what is decided of a pool that has been observed for a whole window. */
const now = (given: Observed) => decide(given, EMPTY_STATE, NOW);
const later = (given: Observed) => decideAfter(40 * MINUTE, given);
const spot = (state: Launch['state'], given: Partial<Launch> = {}) =>
  launch(state, { is_spot: true, price_per_hour: 0.4, ...given });
const preempted = (minutesAgo: number, given: Partial<Launch> = {}) => {
  const at = NOW - minutesAgo * MINUTE;
  return spot('failed', {
    cause: 'preempted',
    intended_at: at - 5 * MINUTE,
    ready_at: at - 2 * MINUTE,
    terminating_at: at,
    state_at: at,
    ended_at: at,
    ...given,
  });
};
const launched = ({ decisions }: Decided) =>
  decisions.flatMap((one) => {
    if (one.kind !== 'launch') return [];
    const kind = one.machine.spot ? 'spot' : one.is_stand_in ? 'stand-in' : 'on-demand';
    return [one.machine.provider === 'here' ? kind : `${kind} ${one.machine.provider}`];
  });
const drained = ({ decisions }: Decided) =>
  decisions.flatMap((one) => (one.kind === 'drain' ? [one.launch_id] : []));

describe('a pool with spot machines', () => {
  it('has its first workers on demand, and the others on spot machines', () => {
    expect(launched(now(of([], busy(4, { spot: { base: 1, back_after: 1200 } }))))).toEqual([
      'on-demand',
      'spot',
    ]);
    const two = { spot: { base: 2, back_after: 1200 } };
    expect(launched(now(of([launch('ready')], busy(4, two))))).toEqual(['on-demand', 'spot']);
    // Only those of a pool that is not for batches alone.
    expect(launched(now(of([], busy(1))))).toEqual(['on-demand']);
    expect(launched(now(of([], busy(2, { batch_only: true }))))).toEqual(['spot', 'spot']);
  });

  it('does not take a worker that it ends now for its base', () => {
    const late = launch('accepted', { intended_at: NOW - HOUR, accepted_at: NOW - HOUR });
    expect(launched(now(of([late], busy(1))))).toEqual(['on-demand']);
    const standIn = launch('ready', { is_stand_in: true, intended_at: NOW - HOUR });
    const back = spot('ready', { replaces: standIn.id, ready_at: NOW - 20 * MINUTE });
    const decided = now(of([standIn, back], busy(2)));
    expect(drained(decided)).toEqual([standIn.id]);
    expect(launched(decided)).toEqual(['on-demand']);
  });

  it('is given a spot machine for its base rather than none', () => {
    const soldOut = launch('failed', { cause: 'no_capacity', state_at: NOW - 1000, ended_at: NOW - 1000 });
    expect(launched(now(of([soldOut], busy(1))))).toEqual(['spot']);
  });

  it('has an on-demand machine stand in while spot machines are sold out', () => {
    const soldOut = spot('failed', { cause: 'no_capacity', state_at: NOW - 1000, ended_at: NOW - 1000 });
    expect(launched(now(of([launch('ready'), soldOut], busy(2))))).toEqual(['stand-in']);
  });

  it('does not take a spot machine that is dearer once its losses count', () => {
    const base = launch('ready');
    const machines = [ON_DEMAND, { ...SPOT, price_per_hour: 0.5 }];
    // Each took half an hour to start and served for two minutes, beside the hour that is assumed.
    const losses = [200, 500, 800].map((minutes) => {
      const loss = preempted(minutes);
      return { ...loss, intended_at: loss.ready_at! - 30 * MINUTE };
    });
    const decided = now(of([base, ...losses], busy(2, { machines })));
    expect(launched(decided)).toEqual(['on-demand']);
    const machine = decided.pools[0]?.machines.find(({ is_spot }) => is_spot);
    expect(machine?.lost_share).toBeCloseTo(90 / (90 + 6 + 60));
    const long = losses.map((one) => ({ ...one, ready_at: one.terminating_at! - 3 * HOUR }));
    expect(launched(now(of([base, ...long], busy(2, { machines }))))).toEqual(['spot']);
  });

  it('is not put all at one provider if another is hardly dearer', () => {
    const there = (price_per_hour: number) => ({ ...SPOT, provider: 'there', price_per_hour });
    const machines = (price: number) => [ON_DEMAND, SPOT, there(price)];
    const base = launch('ready');
    expect(launched(now(of([base], busy(2, { machines: machines(0.5) }))))).toEqual(['spot there']);
    expect(launched(now(of([base], busy(2, { machines: machines(0.6) }))))).toEqual(['spot']);
    expect(
      launched(now(of([base, spot('ready', { provider: 'there' })], busy(3, { machines: machines(0.5) })))),
    ).toEqual(['spot']);
  });

  it('keeps its base when it shrinks, and ends stand-ins first', () => {
    const base = launch('ready', { intended_at: NOW - HOUR });
    const standIn = launch('ready', { is_stand_in: true });
    const cheap = spot('ready');
    const idle = (count: number) => ({
      ...busy(0),
      demand: demand(),
      spec: { ...pool(MIXED).spec, min: count },
    });
    const given = (launches: Launch[], count: number) =>
      of(launches, idle(count), { machines: machinesOf(launches.map((one) => session(one))) });
    expect(drained(later(given([base, standIn, cheap], 2)))).toEqual([standIn.id]);
    expect(drained(later(given([base, standIn, cheap], 1)))).toEqual([standIn.id, cheap.id]);
    expect(drained(later(given([standIn, cheap], 1)))).toEqual([cheap.id]);
  });

  it('counts an on-demand machine as a stand-in wherever it is', () => {
    const machines = [ON_DEMAND, { ...ON_DEMAND, provider: 'there', price_per_hour: 1.1 }, SPOT];
    const soldOut = spot('failed', { cause: 'no_capacity', state_at: NOW - 1000, ended_at: NOW - 1000 });
    expect(launched(now(of([launch('ready'), soldOut], busy(2, { machines }))))).toEqual(['stand-in there']);
  });

  it('goes on with its spot machine until the one of its base is ready', () => {
    const starting = launch('accepted');
    const cheap = spot('ready');
    const small = { ...busy(0), demand: demand(), spec: { ...pool(MIXED).spec, min: 1 } };
    expect(later(of([starting, cheap], small)).decisions).toEqual([]);
  });
});

describe('a spot machine that is taken back', () => {
  it('opens no breaker, however often', () => {
    const losses = Array.from({ length: 9 }, (_, index) => preempted(10 * index + 2, { ready_at: null }));
    const decided = now(of([launch('ready'), ...losses], busy(2)));
    expect(decided.pools[0]?.breaker).toBeNull();
    expect(launched(decided)).toEqual(['stand-in']);
  });

  it('is followed by another one, and its type rests from the second within an hour on', () => {
    const base = launch('ready');
    expect(launched(now(of([base, preempted(1)], busy(2))))).toEqual(['spot']);
    expect(launched(now(of([base, preempted(1), preempted(90)], busy(2))))).toEqual(['spot']);
    const twice = of([base, preempted(1), preempted(50)], busy(2));
    expect(launched(now(twice))).toEqual(['stand-in']);
    expect(now(twice).pools[0]?.machines.find(({ is_spot }) => is_spot)).toMatchObject({
      skipped_until: NOW + 14 * MINUTE,
      skipped_because: expect.stringContaining('taken back 2 times in a row'),
    });
    expect(launched(decide(twice, EMPTY_STATE, NOW + 14 * MINUTE))).toEqual(['spot']);
    const thrice = of([base, preempted(1), preempted(30), preempted(50)], busy(2));
    expect(now(thrice).pools[0]?.machines.find(({ is_spot }) => is_spot)?.skipped_until).toBe(
      NOW + 29 * MINUTE,
    );
  });

  it('counts once with others of a minute, however long one follows the other', () => {
    const base = launch('ready');
    const together = [base, preempted(1), preempted(1.5), preempted(2)];
    expect(launched(now(of(together, busy(2))))).toEqual(['spot']);
    expect(launched(now(of([...together, preempted(2.5)], busy(2))))).toEqual(['stand-in']);
  });

  it('is no capacity any more once its worker drains, also before it was ready', () => {
    const base = launch('ready');
    for (const state of ['ready', 'registered'] as const) {
      const going = spot(state);
      const machines = machinesOf([session(base, { running: 1 }), session(going, { state: 'draining' })]);
      expect(launched(now(of([base, going], busy(2), { machines })))).toEqual(['spot']);
    }
  });

  it('counts once with all that are taken back in the same minute', () => {
    const storm = [1, 1.1, 1.2, 1.3].map((minutes) => preempted(minutes));
    expect(launched(now(of([launch('ready'), ...storm], busy(2))))).toEqual(['spot']);
  });

  it('lets other types and on-demand machines of its type be', () => {
    const machines = [ON_DEMAND, SPOT, { ...SPOT, instance_type: 'big', price_per_hour: 0.6 }];
    const decided = now(of([launch('ready'), preempted(1), preempted(50)], busy(2, { machines })));
    expect(decided.decisions).toMatchObject([{ kind: 'launch', machine: { instance_type: 'big' } }]);
  });

  it('is what rests alone: an on-demand machine whose node was drained is launched again', () => {
    const gone = [0.1, 50].map((minutes) => preempted(minutes, { is_spot: false }));
    expect(launched(now(of(gone, busy(1, { machines: [ON_DEMAND] }))))).toEqual(['on-demand']);
  });

  it('is tried all the same where there is nothing else', () => {
    const alone = busy(1, { machines: [SPOT] });
    const twice = [preempted(0.5), preempted(50)];
    expect(launched(now(of(twice, alone)))).toEqual([]);
    expect(launched(decide(of(twice, alone), EMPTY_STATE, NOW + MINUTE))).toEqual(['spot']);
  });
});

describe('an on-demand machine that stands in', () => {
  const base = launch('ready', { intended_at: NOW - HOUR });
  const standIn = launch('ready', { is_stand_in: true });

  it('is followed by a spot machine once there is one, and drained when that has served long enough', () => {
    const launchedNow = now(of([base, standIn], busy(2)));
    expect(launchedNow.decisions).toMatchObject([
      {
        kind: 'launch',
        machine: { spot: true },
        replaces: standIn.id,
        reason: 'Spot machines are to be had again.',
      },
    ]);
    const back = (readyMinutes: number) =>
      spot('ready', { replaces: standIn.id, ready_at: NOW - readyMinutes * MINUTE });
    expect(later(of([base, standIn, back(19)], busy(2))).decisions).toEqual([]);
    expect(drained(later(of([base, standIn, back(20)], busy(2))))).toEqual([standIn.id]);
    const soon = { spot: { base: 1, back_after: 300 } };
    expect(drained(now(of([base, standIn, back(5)], busy(2, soon))))).toEqual([standIn.id]);
  });

  it('stays while the spot machine is away, or none is to be had, or max leaves no room', () => {
    const away = spot('ready', { replaces: standIn.id, ready_at: NOW - 30 * MINUTE });
    const machines = machinesOf([session(base, { running: 1 }), session(standIn, { running: 1 })]);
    expect(drained(now(of([base, standIn, away], busy(2), { machines })))).toEqual([]);
    const soldOut = spot('failed', { cause: 'no_capacity', state_at: NOW - 1000, ended_at: NOW - 1000 });
    expect(now(of([base, standIn, soldOut], busy(2))).decisions).toEqual([]);
    const full = now(of([base, standIn], busy(2, { max: 2 })));
    expect(full.decisions).toEqual([]);
    expect(full.pools[0]?.text).toMatch(/^Spot machines are to be had again\. But max is 2/);
  });

  it('stays without the money for both, which is no lack of it: pools without a worker are launched', () => {
    const decided = now(of([base, standIn], busy(2), { budget: { per_hour: 2 } }));
    expect(decided.decisions).toEqual([]);
    expect(decided.pools[0]?.text).toBe(
      'None can be launched: the budget of $2 an hour is reached: $2.00 an hour run.',
    );
    expect(decided.stopped_by_budget).toBeNull();
    const short = now(of([base, standIn], busy(3), { budget: { per_hour: 2 } }));
    expect(short.stopped_by_budget).toBe('hour');
  });

  it('is no stand-in any more where the base needs it', () => {
    expect(now(of([standIn, spot('ready')], busy(2))).decisions).toEqual([]);
  });

  it('is not replaced while an operator has paused the pool', () => {
    expect(now(of([base, standIn], { ...busy(2), paused: true })).decisions).toEqual([]);
  });
});

describe('a spot machine in the place of the base', () => {
  it('is replaced at once when an on-demand machine is to be had', () => {
    const one = spot('ready');
    const two = spot('ready');
    const decided = now(of([one, two], busy(2)));
    expect(decided.decisions).toMatchObject([
      { kind: 'launch', reason: '1 worker of the pool is to be on-demand.', is_stand_in: false },
    ]);
    expect(launched(decided)).toEqual(['on-demand']);
    const base = launch('ready', { replaces: one.id, ready_at: NOW });
    expect(drained(now(of([one, two, base], busy(2))))).toEqual([one.id]);
  });
});

describe('a pool that goes over to another version and to other machines at once', () => {
  const versions: ObservedPool['versions'] = {
    wanted: 'b',
    fallback: 'a',
    is_proved: false,
    is_paused: false,
    since: NOW - 2 * HOUR,
    update: { surge: 1, unavailable: 0, patience: 600, canary: { share: 0.5, for: 2 * 3600 } },
    figures: null,
    others: null,
  };
  const base = launch('ready', { version: 'a', intended_at: NOW - 3 * HOUR });
  const old = launch('ready', { version: 'a' });
  const tried = spot('ready', { version: 'b', replaces: old.id, ready_at: NOW - HOUR });

  it('keeps the old worker until the new version is proved, however long the new one has served', () => {
    expect(now(of([base, old, tried], { ...busy(2), versions })).decisions).toEqual([]);
  });

  it('counts the new worker as soon as the old one goes', () => {
    const proved = { ...versions, is_proved: true };
    const soon = { ...tried, ready_at: NOW - MINUTE };
    const decided = now(of([base, old, soon], { ...busy(2), versions: proved }));
    expect(launched(decided)).toEqual([]);
    expect(drained(decided)).toEqual([old.id]);
  });

  it('lacks no money where there is none for a new worker beside the old one', () => {
    const decided = now(of([base, old], { ...busy(2), versions }, { budget: { per_hour: 2 } }));
    expect(decided.decisions).toEqual([]);
    expect(decided.pools[0]?.text).toContain('the budget of $2 an hour is reached');
    expect(decided.stopped_by_budget).toBeNull();
  });

  it('exchanges no machine while the version of its workers is not proved', () => {
    const only = launch('ready', { version: 'b', is_stand_in: true });
    const batch = { ...busy(1, { batch_only: true }), versions };
    expect(now(of([only], batch)).decisions).toEqual([]);
  });
});

it('reads launches that were stored before there were spot machines', () => {
  const why = { reason: '', inputs: '', version: null, price_per_hour: 1, replaces: null };
  const machine = { instance_type: 'small', gpus: 1, disk_gb: null, price_per_hour: null };
  const of = { id: 'l1', name: 'wv-l1', config_id: 'chat', provider: 'here', machine, ...why };
  const { is_spot: _, is_stand_in: __, ...old } = newLaunch({ ...of, is_spot: true, is_stand_in: true }, NOW);
  expect(storedLaunch(JSON.stringify(old))).toMatchObject({ id: 'l1', is_spot: false, is_stand_in: false });
});
