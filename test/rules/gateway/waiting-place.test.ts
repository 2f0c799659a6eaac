import { expect, test } from 'vitest';
import { waitingPlace } from '../../../src/gateway/inference/answer.ts';
import type { WaitingLineView } from '../../../src/queue/rpc.ts';

function line(...job_ids: string[]): WaitingLineView {
  return { job_ids, start: null };
}

test('callers hear what is done for them and their places, for which their queue is asked once a second in all', async () => {
  let now = 1_000_000;
  let asked = 0;
  let lines = [line('a', 'b', 'c'), line('d')];
  const place = (jobId: string) =>
    waitingPlace(
      'q',
      jobId,
      async () => {
        asked += 1;
        return lines;
      },
      () => now,
    );
  expect(await place('b')).toBe('waiting, place 2 of 3');
  expect(await Promise.all(['a', 'c', 'd', 'not-there'].map(place))).toEqual([
    'waiting, place 1 of 3',
    'waiting, place 3 of 3',
    'waiting, place 1 of 1',
    'waiting',
  ]);
  expect(asked).toBe(1);
  lines = [{ ...line('b', 'c'), start: 'starting a worker: loading 62 %, usually 3 min' }];
  now += 1000;
  expect(await place('b')).toBe('starting a worker: loading 62 %, usually 3 min; place 1 of 2');
  expect(await place('a')).toBe('waiting');
  expect(asked).toBe(2);
});

test('callers of a queue that cannot be asked hear what was said last', async () => {
  let now = 1;
  const place = (ask: () => Promise<WaitingLineView[]>) => waitingPlace('other', 'a', ask, () => now);
  expect(await place(() => Promise.reject(new Error('it restarts')))).toBe('waiting');
  now += 1000;
  expect(await place(async () => [line('a')])).toBe('waiting, place 1 of 1');
  now += 1000;
  expect(await place(() => Promise.reject(new Error('it restarts')))).toBe('waiting, place 1 of 1');
});
