import { expect, it } from 'vitest';
import type { SettledJobs } from '../../../src/queue/rpc.ts';
import { QueueHarness } from '../../support/queue-harness.ts';

it('tells what has settled to the newest question of a listener, not to the one that it ends', () => {
  const { queue } = new QueueHarness();
  const job = {
    ...{ job_type: 'chat_completion', config_id: 'cfg', payload: '{"messages":[]}' },
    ...{ priority: 0, max_attempts: 1 },
  };
  queue.submit([job], ['settled']);
  queue.cancel('settled', 'cancelled');
  queue.submitAndListen([job], ['waits'], 'listener');
  const told: Record<string, SettledJobs[]> = { first: [], older: [], newest: [] };
  const ask = (who: string) => queue.jobs.nextSettled('listener', 1000, (answer) => told[who]!.push(answer));
  ask('first');
  expect(told.first).toEqual([{ listener: 'unknown', jobs: [] }]);
  ask('older');
  // One that was settled before is named again, as after a restart of whoever listens.
  queue.jobs.listen('listener', ['settled'], null);
  ask('newest');
  queue.jobs.answerListeners();
  expect(told.older).toEqual([{ listener: 'known', jobs: [] }]);
  expect(told.newest!.flatMap(({ jobs }) => jobs.map(({ id }) => id))).toEqual(['settled']);
});
