import { expect, test } from 'vitest';
import { BROKEN_HEADER } from '../../../src/asking/attempt-loop.ts';
import { nextOutputs, type StreamParts } from '../../../src/gateway/runpod.ts';
import type { JobView } from '../../../src/protocol/index.ts';
import type { FollowedJob, OutputCursor } from '../../../src/queue/rpc.ts';

const START: OutputCursor = { fence_token: 0, taken: 0 };
const LIVE = { worker_id: 'w', stream_id: 7 };
const event = (output: unknown) => `data: ${JSON.stringify({ output })}\n\n`;

/** A job of the queue, its cursor and its replay buffer, played by the test. */
class Played {
  job = { id: 'j', state: 'leased', fence_token: 7, error: null, result: null } as JobView;
  live: FollowedJob['live'] = LIVE;
  cursor = START;
  #written = '';
  opens = 0;

  /** What a reader of the replay buffer gets, from its beginning. */
  write(text: string): void {
    this.#written += text;
  }

  next(parts: Partial<StreamParts> = {}) {
    return nextOutputs('j', {
      follow: async () => ({ job: this.job, live: this.live, cursor: this.cursor }),
      openReplay: async () => {
        this.opens += 1;
        // Open for ever, as a replay buffer is while its job runs.
        const text = this.#written;
        return new Response(
          new ReadableStream({ start: (controller) => controller.enqueue(new TextEncoder().encode(text)) }),
        );
      },
      take: async (from, to) => {
        if (from !== this.cursor) return false;
        this.cursor = to;
        return true;
      },
      whole: async (job) => job,
      sleep: (ms) => new Promise((done) => setTimeout(done, Math.min(ms, 50))),
      ...parts,
    });
  }
}

test('each call gives what came since the last, and the end is told with the rest', async () => {
  const played = new Played();
  played.write(`: waiting\n\n${event('a')}${event({ b: 1 })}`);
  expect(await played.next()).toEqual({
    ...{ id: 'j', status: 'IN_PROGRESS', stream: [{ output: 'a' }, { output: { b: 1 } }] },
  });
  expect(await played.next()).toEqual({ id: 'j', status: 'IN_PROGRESS', stream: [] });
  played.write(event('c'));
  expect((await played.next())?.stream).toEqual([{ output: 'c' }]);
  played.job = { ...played.job, state: 'succeeded', result: { output: ['a', { b: 1 }, 'c', 'd'] } };
  played.live = null;
  expect(await played.next()).toEqual({ id: 'j', status: 'COMPLETED', stream: [{ output: 'd' }] });
  expect(await played.next()).toEqual({ id: 'j', status: 'COMPLETED', stream: [] });
});

test('an event that is cut, or no piece, is left for the next call', async () => {
  const played = new Played();
  played.write(`${event('a')}data: {"output":`);
  expect((await played.next())?.stream).toEqual([{ output: 'a' }]);
  played.write(`"b"}\n\ndata: {"error":{"message":"the attempt broke"}}\n\n`);
  expect((await played.next())?.stream).toEqual([{ output: 'b' }]);
});

test('what comes faster than a call can fall silent is given all the same while the job runs', async () => {
  const played = new Played();
  const many = 300;
  let written = 0;
  let isOver = () => {};
  const over = new Promise<void>((done) => {
    isOver = done;
  });
  const body = new ReadableStream<Uint8Array>({
    pull: (controller) => {
      if (++written > many) controller.close();
      else controller.enqueue(new TextEncoder().encode(event('a')));
      if (written === 50) isOver();
    },
  });
  // The call's time is over in the middle, and no quiet moment comes before.
  const sleep = (ms: number) => (ms > 1000 ? over : new Promise<void>(() => {}));
  const answer = await played.next({ openReplay: async () => new Response(body), sleep });
  expect(answer!.stream.length).toBeGreaterThan(1);
  expect(answer!.stream.length).toBeLessThan(many);
});

test('of two calls at once one gets the pieces', async () => {
  const played = new Played();
  played.write(event('a'));
  const answers = await Promise.all([played.next(), played.next()]);
  expect(answers.flatMap((answer) => answer!.stream)).toEqual([{ output: 'a' }]);
});

test('a job that waits is asked for until something happens to it', async () => {
  const played = new Played();
  played.job = { ...played.job, state: 'pending', fence_token: 3 };
  const asked: [number, number][] = [];
  const follow: StreamParts['follow'] = async (fence, waitMs) => {
    asked.push([fence, waitMs]);
    if (waitMs > 0) played.job = { ...played.job, state: 'leased', fence_token: 4 };
    return { job: played.job, live: LIVE, cursor: START };
  };
  played.write(event('a'));
  expect(await played.next({ follow })).toMatchObject({ status: 'IN_PROGRESS', stream: [{ output: 'a' }] });
  expect(asked).toEqual([
    [0, 0],
    [3, 2000],
  ]);
});

test.each([
  ['leased', {}],
  ['succeeded', { result: { output: ['x', 'y', 'z'] } }],
] as const)('pieces of another attempt are not mixed in while the job is %s', async (state, more) => {
  const played = new Played();
  played.write(event('a'));
  await played.next();
  played.job = { ...played.job, state, fence_token: 8, ...more };
  const answer = await played.next();
  expect(answer).toMatchObject({ status: 'FAILED', stream: [] });
  expect(answer?.error).toMatch(/attempt that this stream came from failed; GET status\/j/);
});

test('an attempt that broke before anything was taken is followed by the next', async () => {
  const played = new Played();
  const broken = new Response(null, { headers: { [BROKEN_HEADER]: '{}' } });
  expect(await played.next({ openReplay: async () => broken })).toMatchObject({
    status: 'IN_PROGRESS',
    stream: [],
  });
  expect(await played.next({ openReplay: () => Promise.reject(new Error('gone')) })).toMatchObject({
    stream: [],
  });
  played.job = { ...played.job, fence_token: 8 };
  played.write(event('a'));
  expect((await played.next())?.stream).toEqual([{ output: 'a' }]);
});

test('a job without a replay buffer gives its output when it is over', async () => {
  const played = new Played();
  played.live = null;
  expect(await played.next()).toEqual({ id: 'j', status: 'IN_PROGRESS', stream: [] });
  played.job = { ...played.job, state: 'succeeded', result: { output: ['a'] } };
  expect((await played.next())?.stream).toEqual([{ output: 'a' }]);
});

test('a job that failed says why, and one that is unknown is none', async () => {
  const played = new Played();
  const error = { message: 'it broke', code: 'engine_error', retryable: false };
  played.job = { ...played.job, state: 'failed', error };
  expect(await played.next()).toEqual({ id: 'j', status: 'FAILED', stream: [], error: 'it broke' });
  expect(await played.next({ follow: async () => null })).toBeNull();
});
