import { describe, expect, it } from 'vitest';
import { decide, EMPTY_STATE } from '../../../src/scheduler/decide.ts';
import { decideAfter, demand, launch, MINUTE, machinesOf, NOW, observed, pool, session } from './observe.ts';

describe('the scaling rule', () => {
  it('launches one for the first job that waits, and none beside it while it starts', () => {
    const waiting = { ...pool(), demand: demand({ waiting: 1, submitted: 1 }) };
    const first = decide(observed({ pools: [waiting] }), EMPTY_STATE, NOW);
    expect(first.decisions.map(({ kind }) => kind)).toEqual(['launch']);
    const under = observed({ pools: [waiting], launches: [launch('requested')] });
    expect(decideAfter(MINUTE, under).decisions).toEqual([]);
  });

  it('drains a worker that nobody needs any more, and holds it while the queue does not answer', () => {
    const idle = launch('ready', { intended_at: NOW - 40 * MINUTE, ready_at: NOW - 39 * MINUTE });
    const seen = observed({ launches: [idle], machines: machinesOf([session(idle)]) });
    expect(decideAfter(60 * MINUTE, seen).decisions).toMatchObject([{ kind: 'drain', launch_id: idle.id }]);
    const unknown = { ...seen, pools: [{ ...pool(), demand: null }] };
    expect(decideAfter(60 * MINUTE, unknown).decisions).toEqual([]);
  });

  it('ends what nobody needs after as long as its pool says, whatever came shortly before', () => {
    const mine = launch('ready');
    const of = (spec: { scale_down_after?: number }, submitted: number) => {
      const pools = [{ ...pool({ keep_warm: 0, ...spec }), demand: demand({ submitted, ended: submitted }) }];
      return observed({ pools, launches: [mine], machines: machinesOf([session(mine)]) });
    };
    const afterLoad = (spec: { scale_down_after?: number }, ms: number) => {
      // Two jobs a second for a minute, then none.
      let decided = decide(of(spec, 0), EMPTY_STATE, NOW - ms - MINUTE);
      for (let s = 5; s <= 60; s += 5) {
        decided = decide(of(spec, 2 * s), decided.state, NOW - ms - MINUTE + s * 1000);
      }
      return decideAfter(ms - 5000, of(spec, 120), decided.state).decisions.map(({ kind }) => kind);
    };
    expect(afterLoad({ scale_down_after: 20 }, 15_000)).toEqual([]);
    expect(afterLoad({ scale_down_after: 20 }, 30_000)).toEqual(['drain']);
    expect(afterLoad({}, 2 * MINUTE)).toEqual([]);
  });
});
