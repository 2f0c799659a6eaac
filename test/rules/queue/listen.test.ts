import { expect, it } from 'vitest';
import type { SettledJobs } from '../../../src/queue/rpc.ts';
import { QueueHarness, ticketOf } from '../../support/queue-harness.ts';

it('tells what has settled to the newest question of a listener, not to the one that it ends', () => {
  const { queue } = new QueueHarness();
  const job = {
    ...{ job_type: 'chat_completion', config_id: 'cfg', payload: '{"messages":[]}' },
    ...{ priority: 0, max_attempts: 1 },
  };
  queue.submit([job], ['settled']);
  queue.do('cancel', 'settled', 'cancelled', null);
  queue.do('submitAndListen', [job], ['waits'], 'listener');
  const told: Record<string, SettledJobs[]> = { first: [], older: [], newest: [] };
  const ask = (who: string) =>
    queue.wait('nextSettled', 'listener', 1000, (answer) => told[who]!.push(answer));
  ask('first');
  expect(told.first).toEqual([{ listener: 'unknown', jobs: [] }]);
  ask('older');
  // One that was settled before is named again, as after a restart of whoever listens.
  queue.do('listen', 'listener', ['settled'], null);
  ask('newest');
  queue.answerListeners();
  expect(told.older).toEqual([{ listener: 'known', jobs: [] }]);
  expect(told.newest!.flatMap(({ jobs }) => jobs.map(({ id }) => id))).toEqual(['settled']);
});

it('names no more long results in one answer than are read side by side, and the others in the next ones', () => {
  const harness = new QueueHarness();
  const { queue } = harness;
  const ids = Array.from({ length: 12 }, (_, n) => `job-${n}`);
  const worker = harness.worker('w', { capacity: ids.length });
  const job = {
    ...{ job_type: 'chat_completion', config_id: 'cfg', payload: '{"messages":[]}' },
    ...{ priority: 0, max_attempts: 1 },
  };
  queue.do('submitAndListen', Array(ids.length).fill(job), ids, 'listener');
  for (const { job_id, fence_token, result_upload_url } of worker.frames('job')) {
    queue.do('storeResult', ticketOf(result_upload_url), `result of ${job_id}`);
    harness.say(worker, { type: 'job_result_ref', job_id, fence_token });
  }
  const told: string[][] = [];
  const ask = () =>
    queue.wait('nextSettled', 'listener', 1000, ({ jobs }) => told.push(jobs.map(({ id }) => id)));
  for (let asked = 0; asked < 4; asked++) {
    ask();
    queue.answerListeners();
  }
  expect(told.map(({ length }) => length)).toEqual([0, 4, 4, 4]);
  expect(told.flat()).toEqual(ids);
});
