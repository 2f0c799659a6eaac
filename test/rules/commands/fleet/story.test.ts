import { describe, expect, it } from 'vitest';
import { happenings } from '../../../../src/commands/fleet/story.ts';
import { fleetView, launchRow, scalingOf } from './fleet-view.ts';

const decision = { at: 0, text: '1 worker given up: no more than 0 were needed lately.' };
const before = fleetView({});

describe('what is said of a fleet while it scales', () => {
  it('is each start with what it is for, and when it is ready', () => {
    const row = launchRow('a', 'intended');
    const one = fleetView({ pools: { demo: scalingOf({ waiting: 12 }) }, launches: [row] });
    expect(happenings(before, one)).toEqual([
      'demo: 12 wait, starting a worker (1 of 3). 1 worker wanted: callers keep 0.0 slots busy and 12 wait.',
    ]);
    const two = ['b', 'c'].map((id) =>
      launchRow(id, 'requested', { reason: '3 workers wanted: much waits.' }),
    );
    const ready = launchRow('a', 'ready', { ready_at: row.intended_at + 4000 });
    expect(happenings(one, fleetView({ launches: [...two, ready] }))).toEqual([
      'demo: starting 2 workers (3 of 3). 3 workers wanted: much waits.',
      'demo: ready after 4.0 s.',
    ]);
    expect(happenings(one, one)).toEqual([]);
  });

  it('is each end with its reason, and what it cost', () => {
    const ready = fleetView({ launches: [launchRow('a', 'ready')] });
    const draining = fleetView({
      pools: { demo: scalingOf({ decision }) },
      launches: [launchRow('a', 'draining')],
    });
    expect(happenings(ready, draining)).toEqual([
      'demo: draining a worker. 1 worker given up: no more than 0 were needed lately.',
    ]);
    expect(happenings(draining, ready)).toEqual(['demo: needed again, no longer draining.']);
    const gone = launchRow('a', 'gone', { cost: 0.05 });
    const ended = fleetView({ launches: [{ ...gone, ended_at: gone.intended_at + 360_000 }] });
    expect(happenings(draining, ended)).toEqual(['demo: a worker has ended after 6 min 00 s, for $0.05.']);
  });

  it('is why a start failed, and that no more are tried for now', () => {
    const starting = fleetView({ launches: [launchRow('a', 'accepted')] });
    const failed = launchRow('a', 'failed', {
      cause: 'exited',
      exit_code: 9,
      detail: 'There is no model "x".',
    });
    const broken = fleetView({
      pools: { demo: scalingOf({ breaker: { text: 'the model cannot be loaded', until: null } }) },
      launches: [failed],
    });
    expect(happenings(starting, broken)).toEqual([
      'demo: its worker ended with exit code 9: There is no model "x".',
      'demo: no more workers are started for now. The model cannot be loaded.',
    ]);
    expect(happenings(broken, fleetView({ launches: [failed] }))).toEqual([
      'demo: workers may be started again.',
    ]);
  });

  it('is what the budget holds back, what an operator wants and whom a provider leaves in the dark', () => {
    const provider = { name: 'pod', driver: 'runpod', listed_at: null, error: null };
    const calm = fleetView({ scaling: { providers: [provider] } });
    const trouble = fleetView({
      pools: { demo: scalingOf({ control: 'paused' }) },
      scaling: { budget_reached: '$2.00 an hour', providers: [{ ...provider, error: 'HTTP 500' }] },
    });
    expect(happenings(calm, trouble)).toEqual([
      'demo: paused: nothing is started and nothing ended.',
      'Budget: $2.00 an hour.',
      'Provider pod: it does not say what runs there, so nothing is changed. HTTP 500.',
    ]);
    expect(happenings(trouble, calm)).toEqual([
      'demo: workers start and end by themselves again.',
      'Budget: there is room again.',
      'Provider pod: it answers again.',
    ]);
  });

  it('is that lines of batches wait for their rule, once, and how to begin now', () => {
    const text = '0 workers wanted: 9 lines of batches wait.';
    const waits = fleetView({
      pools: { demo: scalingOf({ batch_wait: { lines: 9, until: 1 }, decision: { at: 0, text } }) },
    });
    expect(happenings(before, waits)).toEqual([
      `demo: ${text} "worker-vllm fleet launch demo" starts one now.`,
    ]);
    expect(happenings(waits, waits)).toEqual([]);
  });

  it('begins with what there is', () => {
    expect(happenings(null, before)).toEqual([]);
    const busy = fleetView({ pools: { demo: scalingOf({ ready: 2, starting: 1 }) } });
    expect(happenings(null, busy)).toEqual(['demo: 2 of at most 3 workers ready, 1 starting.']);
  });
});
