import { expect, it } from 'vitest';
import { withoutComments } from '../support/comments.ts';
import { ANSWERED_FIRST, bytes, EVENT_STREAM, RawWorker } from '../support/raw-worker.ts';
import { startTestQueue } from '../support/test-queue.ts';

/** Where a request goes whose attempt failed, in a real queue; the workers are played. */
const road = startTestQueue();

async function worker(queue: string, id: string, capacity: number): Promise<RawWorker> {
  return await (await new RawWorker(road.url).connect(queue)).register(id, { capacity });
}

it('goes to another worker than the one that broke its answer, before the queue knows of that', async () => {
  const queue = road.newQueue();
  const ask = () =>
    fetch(`${road.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'x-queue-id': queue, ...ANSWERED_FIRST },
      body: JSON.stringify({ model: 'tiny', stream: true }),
    });
  const good = await worker(queue, 'good', 2);
  const other = ask();
  await good.job();
  // Of the two it has less to do, also after the attempt that it breaks.
  const bad = await worker(queue, 'bad', 8);
  const answered = ask();
  const broken = (await bad.job()).stream_id as number;
  const reason = { message: 'out of memory', code: 'engine_error', retryable: true, http_status: 500 };
  bad.answer({ type: 'broken', stream: broken, reason });
  for (const index of [0, 1]) {
    const stream = (await good.job(index)).stream_id as number;
    const data = bytes(`data: ${index}\n\n`);
    good.answer(
      { type: 'head', stream, head: EVENT_STREAM },
      { type: 'bytes', stream, offset: 0, data },
      { type: 'end', stream, size: data.byteLength },
    );
  }
  // A stream that takes long begins with comments.
  const textOf = async (asked: Promise<Response>) => withoutComments(await (await asked).text());
  expect(await textOf(answered)).toBe('data: 1\n\n');
  expect(await textOf(other)).toBe('data: 0\n\n');
});
