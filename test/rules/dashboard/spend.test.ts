import { expect, it } from 'vitest';
import { perMillionTokens, spendOf, uncounted } from '../../../src/dashboard/spending.ts';
import type { PoolRow, WorkerRow } from '../../../src/protocol/fleet-view.ts';
import type { LaunchRow } from '../../../src/protocol/scaling.ts';
import { doingNow, sortLaunches, stepsDone } from '../../../src/show/launches.ts';

const HOUR = 3_600_000;
const NOW = 100 * HOUR;

const launch = (name: string, state: LaunchRow['state'], more: Partial<LaunchRow> = {}) =>
  ({
    ...{ id: name, name, state, price_per_hour: 2, intended_at: NOW, state_at: NOW },
    ...{ accepted_at: null, started_at: null, registered_at: null, ready_at: null, ended_at: null },
    ...{ loading: null, cause: null, exit_code: null, provider: 'vast', ...more },
  }) as LaunchRow;
const worker = (worker_id: string, running: number | null, slots: number | null) =>
  ({ worker_id, running, slots }) as WorkerRow;

it('what machines cost is summed over those that may be alive, and idle slots of the ones that are ready', () => {
  const launches = [
    launch('busy', 'ready', { started_at: NOW - 5 * HOUR }),
    launch('idle', 'ready', { started_at: NOW - HOUR / 2 }),
    launch('unheard', 'draining', { accepted_at: NOW - HOUR / 4 }),
    launch('starts', 'accepted', { accepted_at: NOW - HOUR / 4 }),
    launch('ended', 'gone', { started_at: NOW - 3 * HOUR, ended_at: NOW - HOUR / 2 }),
    launch('long-ago', 'gone', { started_at: NOW - 5 * HOUR, ended_at: NOW - 2 * HOUR }),
    launch('never', 'failed'),
  ];
  const workers = [worker('busy', 3, 4), worker('idle', 0, 4), worker('unheard', null, null)];
  const spend = spendOf(launches, workers, NOW);
  expect(spend).toEqual({ machines: 4, per_hour: 8, idle_per_hour: 2.5, last_hour: 5 });
  // As the scheduler sums up the day, so that a day never costs less than its last hour.
  expect(spendOf(launches, workers, NOW + 59_000).last_hour).toBe(5);
  const pool = (tokens_out: number) => ({ hour: { tokens_out } }) as PoolRow;
  expect(perMillionTokens(pool(2_000_000), spend)).toBe(2.5);
  expect(perMillionTokens(pool(0), spend)).toBeNull();
});

it('says how many workers no launcher has started', () => {
  const workers = [worker('launched', 1, 4), worker('by-hand', 1, 4)];
  expect(uncounted({ workers, launches: [launch('launched', 'ready')] })).toBe(1);
});

it('a launch is as far as the last step that was told, and says what goes on', () => {
  const steps: [LaunchRow, number, string][] = [
    [launch('a', 'intended'), 0, 'waits for a launcher'],
    [launch('b', 'requested'), 0, 'asked vast'],
    [launch('c', 'accepted', { accepted_at: NOW }), 1, 'the container is made'],
    [launch('d', 'accepted', { accepted_at: NOW, started_at: NOW }), 2, 'the container runs'],
    [launch('e', 'accepted', { accepted_at: NOW, loading: { phase: 'load', progress: 0.6 } }), 2, 'load'],
    [launch('i', 'registered', { registered_at: NOW }), 4, 'its engine is not healthy yet'],
    [launch('f', 'ready', { ready_at: NOW }), 5, 'takes jobs'],
    [launch('g', 'terminating', { ready_at: NOW, cause: 'lost' }), 5, 'is terminated: its worker was lost'],
    [launch('h', 'failed', { cause: 'exited', exit_code: 71 }), 0, 'its worker ended with exit code 71'],
  ];
  for (const [one, done, says] of steps) expect([stepsDone(one), doingNow(one)]).toEqual([done, says]);
  const order = sortLaunches(steps.map(([one]) => one)).map(({ name }) => name);
  expect(order.join('')).toBe('icdebagfh');
});
