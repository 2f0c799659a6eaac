import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import OpenAI from 'openai';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { ensureClients } from '../../scripts/clients/setup.ts';
import { type QueueProcess, readyWorker, startQueue, tearDown } from '../support/road.ts';

/** RunPod's own Python client, unmodified, over the road as its users start it. */
let queue: QueueProcess;
let results: Record<string, { value?: never; error?: string }>;

beforeAll(async () => {
  queue = await startQueue();
  const guarded = await startQueue({ env: { QUEUE_TOKENS: 'submit:secret-of-the-test' } });
  // One slot, so that jobs wait; slow enough to be seen running.
  await readyWorker(queue.url, 'w', {
    engineArgs: '--inter-token-latency-ms 10',
    env: { CASOLA_MAX_JOBS: '1' },
  });
  const { python } = await ensureClients();
  const script = join(import.meta.dirname, 'runpod_client.py');
  // A proxy of the environment must not come between.
  const env = { ...process.env, NO_PROXY: '*', no_proxy: '*' };
  const { stdout } = await promisify(execFile)(python, [script, queue.url, guarded.url], { env });
  results = JSON.parse(stdout.trim().split('\n').at(-1)!);
});
afterAll(tearDown);

/** What a scenario of runpod_client.py gave. */
function gave(name: string): Record<string, never> {
  expect(results[name]?.error).toBeUndefined();
  return results[name]!.value!;
}

const TOKENS = {
  choices: [{ tokens: [expect.any(String)] }],
  usage: { input: expect.any(Number), output: 12 },
};

it('run_sync gives the output', () => {
  expect(gave('run_sync')).toEqual([TOKENS]);
});

it('run gives a job that is polled until its output is there', () => {
  const { id, first, output, last, raw } = gave('run');
  expect([first, output, last]).toEqual(['IN_QUEUE', [TOKENS], 'COMPLETED']);
  expect(raw).toEqual({
    ...{ id, status: 'COMPLETED', output, workerId: 'w', retries: 0 },
    ...{ delayTime: expect.any(Number), executionTime: expect.any(Number) },
  });
});

it('stream gives every batch once, in order', () => {
  const { pieces, output } = gave('stream') as unknown as Record<
    'pieces' | 'output',
    { choices: { tokens: string[] }[]; usage: { output: number } }[]
  >;
  expect(pieces).toEqual(output);
  // Sizes 1, 3 and 9 for twelve tokens.
  expect(pieces.map(({ choices }) => choices[0]!.tokens.length)).toEqual([1, 3, 8]);
  expect(pieces.at(-1)!.usage.output).toBe(12);
});

it('messages stream too', () => {
  const pieces = gave('stream_of_messages') as unknown as { choices: { tokens: string[] }[] }[];
  expect(pieces.length).toBeGreaterThan(1);
  expect(pieces[0]!.choices[0]!.tokens).toHaveLength(1);
});

it('OpenAI’s format is the engine’s own', () => {
  expect(gave('openai_format')).toMatchObject([{ object: 'chat.completion', choices: [{ index: 0 }] }]);
  expect(gave('openai_route')).toMatchObject([
    { object: 'chat.completion', usage: { completion_tokens: 5 } },
  ]);
  expect(gave('openai_route_stream')).toMatch(/^data: \{[\s\S]*data: \[DONE\]\n\n$/);
});

it('any inference route can be asked for', () => {
  expect(gave('route')).toMatchObject([{ data: [{ id: 'tiny' }] }]);
});

it('a failed job says why', () => {
  const { status, output, error } = gave('failed');
  expect([status, output]).toEqual(['FAILED', null]);
  expect(error).toMatch(/^input.sampling_params.best_of: vLLM has no such parameter/);
});

it('cancel ends a job that runs', () => {
  expect(gave('cancel')).toMatchObject({ cancelled: { status: 'CANCELLED' }, status: 'CANCELLED' });
});

it('purge_queue removes what waits, and health counts it', () => {
  const { health, purged, statuses } = gave('purge_queue');
  expect(health).toMatchObject({ jobs: { inProgress: 1, inQueue: 2 }, workers: { running: 1, ready: 1 } });
  expect(purged).toEqual({ removed: 2, status: 'completed' });
  expect(statuses).toEqual(['CANCELLED', 'CANCELLED']);
});

it('an unknown endpoint is 404, a wrong key 401, and the key may come bare', () => {
  expect(gave('unknown_endpoint')).toEqual({
    status: 404,
    body: { error: 'There is no endpoint "nowhere". Endpoints there are: cfg.' },
  });
  expect(gave('wrong_key')).toMatch(/^401 Unauthorized/);
  // Known, and then there is no endpoint.
  expect(gave('right_key')).toEqual([404, 404]);
});

it('the asyncio client does the same', () => {
  const { output, status, pieces, cancelled, health, purged } = gave('asyncio_client');
  expect([output, status, cancelled]).toEqual([[TOKENS], 'COMPLETED', 'CANCELLED']);
  expect(pieces).toHaveLength(3);
  expect(health).toMatchObject({ workers: { ready: 1 } });
  expect(purged).toEqual({ removed: 0, status: 'completed' });
});

it('OpenAI’s client runs at openai/v1 of an endpoint', async () => {
  const client = new OpenAI({ baseURL: `${queue.url}/v2/default/openai/v1`, apiKey: 'any-key' });
  expect((await client.models.list()).data.map(({ id }) => id)).toEqual(['tiny']);
  const stream = await client.chat.completions.create({
    ...{ model: 'tiny', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 5, stream: true },
  });
  let text = '';
  for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? '';
  expect(text).not.toBe('');
});
