import { describe, expect, it } from 'vitest';
import { decide, EMPTY_STATE } from '../../../src/scheduler/decide.ts';
import type { Launch } from '../../../src/scheduler/launch.ts';
import { newMachine } from '../../../src/scheduler/machines.ts';
import type { Observed } from '../../../src/scheduler/rule-types.ts';
import { decideAfter, demand, launch, MINUTE, machinesOf, NOW, observed, pool, session } from './observe.ts';

const HOUR = 60 * MINUTE;
const long = { intended_at: NOW - 3 * HOUR, accepted_at: NOW - 3 * HOUR, ready_at: NOW - 2.9 * HOUR };
const kinds = (of: Observed, ms = HOUR) => decideAfter(ms, of).decisions.map(({ kind }) => kind);

describe('what the rule gives up', () => {
  it('gives up starts first, then who is idle for longest, then the dearest; and tells why', () => {
    const [busy, idle, dear] = [
      launch('ready', long),
      launch('ready', long),
      launch('ready', { ...long, price_per_hour: 5 }),
    ];
    const start = launch('requested', { intended_at: NOW - 30_000 });
    const of = (running: number, launches: Launch[]) =>
      observed({
        pools: [{ ...pool(), demand: demand({ running }) }],
        launches,
        machines: machinesOf(
          launches
            .filter(({ state }) => state === 'ready')
            .map((one) => session(one, { running: one === busy ? running : 0 })),
        ),
      });
    expect(decideAfter(HOUR, of(1, [busy, idle, dear, start])).decisions).toMatchObject([
      { kind: 'terminate', launch_id: start.id, cause: null, reason: expect.stringContaining('not needed') },
      { kind: 'drain', launch_id: dear.id },
      { kind: 'drain', launch_id: idle.id },
    ]);
    const before = decideAfter(HOUR, of(1, [busy, idle]));
    // Another that has been idle only since now stays.
    const later = of(1, [busy, idle, dear]);
    later.machines.get(idle.name)!.session!.running = 1;
    later.pools[0]!.demand!.running = 2;
    expect(before.decisions).toMatchObject([{ kind: 'drain', launch_id: idle.id }]);
    expect(decide(later, before.state, NOW + 5000).decisions[0]).toMatchObject({ launch_id: dear.id });
  });

  it('gives up a start whose old worker is gone rather than the one beside a worker that serves', () => {
    const old = launch('ready', { ...long, version: 'a' });
    const beside = launch('accepted', { version: 'b', replaces: old.id });
    const alone = launch('accepted', { version: 'b', replaces: 'gone', intended_at: NOW - 3 * MINUTE });
    const update = { surge: 2, unavailable: 0, patience: 60 };
    const trial = { wanted: 'b', fallback: null, is_proved: false, is_paused: false, since: NOW - HOUR };
    const of = observed({
      pools: [{ ...pool(), versions: { ...trial, update, figures: null, others: null } }],
      launches: [alone, old, beside],
      machines: machinesOf([session(old, { running: 1 })]),
    });
    of.pools[0]!.demand!.running = 1;
    expect(decideAfter(HOUR, of).decisions).toMatchObject([{ kind: 'terminate', launch_id: alone.id }]);
  });

  it('keeps what was wanted lately, and the last one as long as it is kept warm', () => {
    const mine = launch('ready', long);
    const of = (keep_warm?: number) =>
      observed({
        pools: [pool(keep_warm === undefined ? {} : { keep_warm })],
        launches: [mine],
        machines: machinesOf([session(mine)]),
      });
    expect(kinds(of(), 4 * MINUTE)).toEqual([]);
    expect(kinds(of(2 * 3600))).toEqual([]);
    expect(kinds(of(60))).toEqual(['drain']);
  });

  it('terminates a drained worker only when the queue has answered that it runs nothing', () => {
    const mine = launch('draining', long);
    const of = (cordoned: Record<string, number>) =>
      observed({ launches: [mine], machines: machinesOf([session(mine)]), cordoned });
    expect(kinds(of({}))).toEqual([]);
    expect(kinds(of({ [mine.name]: 1 }))).toEqual([]);
    expect(kinds(of({ [mine.name]: 0 }))).toEqual(['terminate']);
  });

  it('takes a draining worker back before it launches another, but none that an operator drains', () => {
    const mine = launch('draining', long);
    const busy = { ...pool(), demand: demand({ waiting: 1, submitted: 1 }) };
    // The queue shows a worker that the scheduler drains as draining.
    const cordoned = session(mine, { state: 'draining' });
    const of = observed({ pools: [busy], launches: [mine], machines: machinesOf([cordoned]) });
    expect(kinds(of, 5000)).toEqual(['take_back']);
    expect(kinds({ ...of, dismissed: [mine.id] }, 5000)).toEqual(['launch']);
  });

  it('takes none back whose worker drains by itself', () => {
    const mine = launch('draining', long);
    const busy = { ...pool(), demand: demand({ waiting: 1, submitted: 1 }) };
    const leaving = session(mine, { state: 'draining', drains_itself: true });
    const of = observed({ pools: [busy], launches: [mine], machines: machinesOf([leaving]) });
    expect(kinds(of, 5000)).toEqual(['launch']);
  });

  it('gives up a start after its deadline, later where it moves on, and never for a provider that is silent', () => {
    const late = launch('accepted', { intended_at: NOW - 25 * MINUTE, accepted_at: NOW - 24 * MINUTE });
    const of = observed({ pools: [{ ...pool(), demand: demand({ waiting: 1 }) }], launches: [late] });
    expect(decideAfter(5000, of).decisions).toContainEqual(
      expect.objectContaining({ kind: 'terminate', cause: 'start_deadline' }),
    );
    const progress = { phase: null, share: 0, at: NOW - MINUTE };
    const moving = { ...of, machines: new Map([[late.name, { ...newMachine(late.name), progress }]]) };
    expect(kinds(moving, 5000)).not.toContain('terminate');
    const silent = { ...of, providers: [{ ...of.providers[0]!, is_fresh: false }] };
    expect(kinds(silent, 5000)).toEqual([]);
  });

  it('gives up a ready worker that has long been away, and launches another meanwhile', () => {
    const away = launch('ready', long);
    const of = observed({
      pools: [{ ...pool(), demand: demand({ waiting: 1, submitted: 1 }) }],
      launches: [away],
    });
    expect(kinds(of, 30_000)).toEqual([]);
    expect(kinds(of, 2 * MINUTE)).toEqual(['launch']);
    expect(decideAfter(11 * MINUTE, of).decisions).toContainEqual(
      expect.objectContaining({ kind: 'terminate', cause: 'lost' }),
    );
  });

  it('leaves a paused pool alone, and ends one that is no longer in the spec', () => {
    const mine = launch('ready', long);
    const of = (given: object) =>
      observed({
        pools: [{ ...pool({ min: 1, max: 3 }), ...given }],
        launches: [mine],
        machines: machinesOf([session(mine)]),
      });
    const busy = { demand: demand({ waiting: 50, submitted: 50 }) };
    expect(kinds(of({ paused: true, ...busy }))).toEqual([]);
    expect(kinds(of({ removed: true, ...busy }))).toEqual(['drain']);
  });

  it('shrinks nothing until it has watched for a whole window, also after a gap and a clock that jumped', () => {
    const mine = launch('ready', long);
    const idle = observed({
      pools: [pool({ keep_warm: 0 })],
      launches: [mine],
      machines: machinesOf([session(mine)]),
    });
    expect(kinds(idle, 4 * MINUTE)).toEqual([]);
    const { state } = decideAfter(HOUR, { ...idle, launches: [], machines: new Map() });
    expect(decide(idle, state, NOW + 2 * HOUR).decisions).toEqual([]);
    expect(decide(idle, state, NOW - 2 * HOUR).decisions).toEqual([]);
    expect(decide(idle, EMPTY_STATE, NOW).decisions).toEqual([]);
  });

  it('gives up nothing while callers wait: workers whose cache is full take none of it, and may again soon', () => {
    const four = Array.from({ length: 4 }, () => launch('ready', long));
    const of = (waiting: number, spec: object = {}) =>
      observed({
        pools: [{ ...pool(spec), demand: demand({ running: 4, waiting }) }],
        launches: four,
        machines: machinesOf(four.map((one) => session(one, { state: 'paused', running: 1 }))),
      });
    expect(kinds(of(2))).toEqual([]);
    expect(kinds(of(0))).toEqual(['drain', 'drain', 'drain']);
    // Beyond its limits they go all the same, and those that are for batches alone are not for callers.
    expect(kinds(of(2, { max: 3 }))).toEqual(['drain']);
    expect(kinds(of(2, { batch_only: true }))).toHaveLength(4);
  });

  it('keeps the last worker as long as the others, where keep_warm says nothing', () => {
    const mine = launch('ready', long);
    const idle = observed({
      pools: [pool({ scale_down_after: 60 })],
      launches: [mine],
      machines: machinesOf([session(mine)]),
    });
    expect(kinds(idle, MINUTE - 10_000)).toEqual([]);
    expect(kinds(idle, MINUTE + 10_000)).toEqual(['drain']);
  });

  it('keeps one that is up for lines of a batch, however few', () => {
    const mine = launch('ready', long);
    const batches = [{ lines: 1, ends_at: NOW + 24 * HOUR }];
    const of = { ...pool(), demand: demand({ batches }) };
    const up = observed({ pools: [of], launches: [mine], machines: machinesOf([session(mine)]) });
    expect(kinds(up)).toEqual([]);
    expect(decide(up, EMPTY_STATE, NOW).pools[0]).toMatchObject({
      wanted: 1,
      batch_wait: null,
      text: '1 worker wanted: the one that is up stays for lines of batches.',
    });
  });
});
