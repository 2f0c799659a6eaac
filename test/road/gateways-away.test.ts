import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { until } from '../support/poll.ts';
import { freePort } from '../support/ports.ts';
import {
  chatJob,
  cli,
  HELD,
  job,
  killQueue,
  type QueueProcess,
  readyWorker,
  setPace,
  settled,
  startQueue,
  submit,
  tearDown,
  type WorkerProcess,
} from '../support/road.ts';

/** Two gateways on ports of their own: a worker at one, its callers at the other, and no queue for a while. */
let queue: QueueProcess;
let worker: WorkerProcess;
/** The addresses of the gateways. */
let urls: [string, string];

const STREAMS = 100;
const TOKENS = 40;
/** Longer than the grace of a worker that is away, and than its renewals have to be answered, ms. */
const AWAY_MS = 15_000;

beforeAll(async () => {
  queue = await startQueue({ env: { QUEUE_RECONNECT_GRACE_SECONDS: '5', QUEUE_LEASE_SECONDS: '6' } });
  const ports = [await freePort(), await freePort()] as const;
  const starting = ports.map(async (port) => {
    await cli(['gateway', '--queue', queue.url, '--port', String(port)]).waitForLine(/listening at/);
    return `http://127.0.0.1:${port}`;
  });
  urls = (await Promise.all(starting)) as [string, string];
  worker = await readyWorker(urls[0], 'only', {
    engineArgs: `${HELD} --max-num-seqs 300`,
    env: { CASOLA_MAX_JOBS: '300', MIGRATION: 'off' },
  });
});
afterAll(tearDown);

async function chat(stream: boolean): Promise<string> {
  const response = await fetch(`${urls[1]}/v1/chat/completions`, {
    method: 'POST',
    body: JSON.stringify({
      ...{ model: 'tiny', messages: [{ role: 'user', content: 'x' }], stream, ignore_eos: true },
      max_tokens: TOKENS,
    }),
  });
  const text = await response.text();
  expect(response.status, text).toBe(200);
  return text;
}

async function counted(): Promise<{ requests: number; output: number }> {
  const response = await fetch(`${urls[1]}/api/usage?days=2`);
  const { total } = (await response.json()) as { total: { requests: number; output: number } };
  return { requests: total.requests, output: total.output };
}

it('nothing that runs is dropped or counted twice while the queue is away, and what ends is settled afterwards', async () => {
  const before = await counted();
  const { id } = await submit(urls[1], chatJob(TOKENS));
  const streams = Array.from({ length: STREAMS }, () => chat(true));
  await until(async () => (await job(urls[1], id)).state === 'leased', 'the job runs');
  await until(async () => {
    const text = await (await fetch(`${worker.engineUrl}/metrics`)).text();
    return Number(/^vllm:num_requests_running\S* (\S+)$/m.exec(text)?.[1]) >= STREAMS + 1;
  }, 'all run');
  await killQueue(queue);
  const killedAt = performance.now();
  // Half of the time goes by with running jobs, whose leases nobody renews; the rest with settlements that wait.
  await sleep(AWAY_MS / 2);
  const late = chat(false);
  await setPace(worker.engineUrl, 5);
  for (const text of await Promise.all(streams)) {
    expect(text).toContain('data: [DONE]');
    expect(text.match(/"content":"[^"]/g)).toHaveLength(TOKENS);
  }
  // Gateways refuse callers after 30 s, so the streams' time counts.
  await sleep(Math.max(0, killedAt + AWAY_MS - performance.now()));
  // Gateway and worker may be slow to dial again.
  queue = await startQueue({ ...queue, env: { QUEUE_RECONNECT_GRACE_SECONDS: '60' } });
  expect(JSON.parse(await late)).toMatchObject({ usage: { completion_tokens: TOKENS } });
  expect(await settled(urls[1], id)).toMatchObject({ state: 'succeeded', attempts: 1, attempt_errors: [] });
  const requests = STREAMS + 2;
  await until(async () => (await counted()).requests >= before.requests + requests, 'all is counted');
  expect(await counted()).toEqual({
    requests: before.requests + requests,
    output: before.output + requests * TOKENS,
  });
});
