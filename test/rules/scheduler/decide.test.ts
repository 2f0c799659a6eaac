import { describe, expect, it } from 'vitest';
import { decide, EMPTY_STATE } from '../../../src/scheduler/decide.ts';
import { config, decideAfter, demand, launch, MINUTE, NOW, observed, session } from './observe.ts';

describe('the scaling rule', () => {
  it('launches one for the first job that waits, and none beside it while it starts', () => {
    const waiting = { ...config(), demand: demand({ waiting: 1, submitted: 1 }) };
    const first = decide(observed({ configs: [waiting] }), EMPTY_STATE, NOW);
    expect(first.decisions.map(({ kind }) => kind)).toEqual(['launch']);
    const under = observed({ configs: [waiting], launches: [launch('requested')] });
    expect(decideAfter(MINUTE, under).decisions).toEqual([]);
  });

  it('drains a worker that nobody needs any more, and holds it while the queue does not answer', () => {
    const idle = launch('ready', { intended_at: NOW - 40 * MINUTE, ready_at: NOW - 39 * MINUTE });
    const seen = observed({ launches: [idle], sessions: [session(idle)] });
    expect(decideAfter(60 * MINUTE, seen).decisions).toMatchObject([{ kind: 'drain', launch_id: idle.id }]);
    const unknown = { ...seen, configs: [{ ...config(), demand: null }] };
    expect(decideAfter(60 * MINUTE, unknown).decisions).toEqual([]);
  });
});
