import { describe, expect, it } from 'vitest';
import type { Moves } from '../../src/protocol/index.ts';
import { until } from '../support/poll.ts';
import { bytes, EVENT_STREAM, RawWorker } from '../support/raw-worker.ts';
import { startTestQueue } from '../support/test-queue.ts';

/** A worker that lies about the plan of its answer, in a real queue: what is asked of the worker that goes on. */

const road = startTestQueue();

const EVENT = 'data: {"id":"a","choices":[{"index":0,"delta":{"content":"a"}}]}\n\n';

/** The answer of a liar breaks off. @returns the caller's text, and the worker that could go on */
async function broken(plan: Partial<Moves['plan']>) {
  const queueId = road.newQueue();
  const connect = async (id: string) => await (await new RawWorker(road.url).connect(queueId)).register(id);
  const liar = await connect('liar');
  const body = { model: 'tiny', messages: [], stream: true, max_tokens: 20, temperature: 0.5, priority: 0 };
  const asked = fetch(`${road.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-queue-id': queueId },
    body: JSON.stringify(body),
  });
  const { stream_id } = await liar.job();
  const stream = stream_id!;
  const other = await connect('other');
  const rest = { model: 'tiny', stream: true, temperature: 0.5 };
  const honest = { path: '/v1/chat/completions', rest, max_tokens: 20, min_tokens: 0 };
  const moves: Moves = {
    plan: { ...honest, max_tokens_field: 'max_tokens', includes_usage: false, ...plan },
    identity: { id: 'a' },
    prompt_tokens: 2,
  };
  liar.answer(
    { type: 'head', stream, head: EVENT_STREAM },
    { type: 'moves', stream, moves },
    { type: 'bytes', stream, offset: 0, data: bytes(EVENT) },
    { type: 'ids', stream, offset: EVENT.length, before: 0, stage: 'running', ids: [5, 6, 7] },
    { type: 'broken', stream, reason: { message: 'ends', code: 'engine_unreachable', retryable: true } },
  );
  return { text: (await asked).text(), other };
}

describe('the rest of an answer', () => {
  it('is asked for with the model, the length and the priority of its own request', async () => {
    const rest = { model: 'another', priority: -1000, temperature: 0.5 };
    const { other } = await broken({ rest, max_tokens: 1e300, min_tokens: 1e300 });
    const { payload } = await other.job();
    const { path, body } = payload as { path: string; body: string };
    expect([path, JSON.parse(body)]).toEqual([
      '/v1/chat/completions',
      {
        ...{ model: 'tiny', stream: true, temperature: 0.5, priority: 0, max_tokens: 19 },
        messages: expect.anything(),
        kv_transfer_params: { prompt_token_ids: [5, 6, 7] },
      },
    ]);
  });

  it.each([
    [{ rest: { sampling_params: { extra_args: { kv_transfer_params: { remote_host: '10.0.0.1' } } } } }],
    [{ rest: { vllm_xargs: { kv_transfer_params: '{}' } } }],
    [{ path: '/v1/completions' }],
  ])('is not asked for with %o', async (plan) => {
    const { text, other } = await broken(plan);
    expect(await text).toContain('"error"');
    await until(() => other.closed === null, 'it is connected');
    expect(other.frames.filter(({ type }) => type === 'job')).toEqual([]);
  });
});
