import { describe, expect, it } from 'vitest';
import { until } from '../support/poll.ts';
import { type RawCaller, rawCaller } from '../support/raw-caller.ts';
import { RawWorker } from '../support/raw-worker.ts';
import { startTestQueue } from '../support/test-queue.ts';

/** Callers that leave, in every phase of a request, in a real queue; the worker is played by the test. */
const road = startTestQueue();

async function worker(queue: string, more = {}): Promise<RawWorker> {
  return await (await new RawWorker(road.url).connect(queue)).register('w', more);
}

const ask = (queue: string, stream: boolean) =>
  rawCaller(road.url, '/v1/chat/completions', { stream, messages: [] }, { 'x-queue-id': queue });

async function pending(queue: string): Promise<number> {
  const health = await fetch(`${road.url}/health`, { headers: { 'x-queue-id': queue } });
  return ((await health.json()) as { pending: number }).pending;
}

const CASES = [true, false].flatMap((stream) =>
  (['close', 'reset'] as const).map((leave) => ({
    stream,
    leave,
    name: `${stream ? 'a stream' : 'an answer in one piece'}, by a ${leave}`,
  })),
);

describe('a caller that leaves', () => {
  it.each(CASES)('while it waits for a slot gives up its place: $name', async ({ stream, leave }) => {
    const queue = road.newQueue();
    const busy = await worker(queue);
    await ask(queue, true);
    await busy.job();
    const caller = await ask(queue, stream);
    await until(async () => (await pending(queue)) === 1, 'it waits');
    caller[leave]();
    await until(async () => (await pending(queue)) === 0, 'its place is free');
  });

  it.each(CASES)('is missed at the worker that has its request: $name', async ({ stream, leave }) => {
    const queue = road.newQueue();
    const played = await worker(queue);
    const caller = await ask(queue, stream);
    const job = await played.job();
    const cancelled = () =>
      played.records.some((record) => record.type === 'cancel' && record.stream === job.stream_id);
    expect(cancelled()).toBe(false);
    caller[leave]();
    await until(cancelled, 'the stream is cancelled at the worker');
  });

  it.each(CASES)('is missed at a worker that speaks only the base: $name', async ({ stream, leave }) => {
    const queue = road.newQueue();
    const played = await worker(queue, { base: true });
    const caller = await ask(queue, stream);
    const { job_id } = await played.job();
    caller[leave]();
    expect(await played.next('job_revoked')).toMatchObject({ job_id });
  });

  it('while tokens come is missed too, and while they have stopped', async () => {
    const queue = road.newQueue();
    const played = await worker(queue);
    const caller: RawCaller = await ask(queue, true);
    const stream = (await played.job()).stream_id as number;
    const head = { status: 200, headers: { 'content-type': 'text/event-stream' } };
    played.answer(
      { type: 'head', stream, head },
      { type: 'bytes', stream, offset: 0, data: new TextEncoder().encode('data: 1\n\n') },
    );
    await until(() => caller.heard().includes('data: 1'), 'the first token');
    caller.close();
    await until(() => played.records.some(({ type }) => type === 'cancel'), 'the stream is cancelled');
  });
});
