import OpenAI from 'openai';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { WorkerView } from '../../src/gateway/fleet-views.ts';
import { EXIT } from '../../src/process/index.ts';
import { until } from '../support/poll.ts';
import { REFUSED_FIRST } from '../support/raw-worker.ts';
import {
  chatJob,
  engineRunning,
  HELD,
  job,
  killQueue,
  processesWith,
  type QueueProcess,
  readyWorker,
  setPace,
  settled,
  startQueue,
  submit,
  tearDown,
  type WorkerProcess,
  workers,
} from '../support/road.ts';

/** What the road does when a part of it is killed. */
let queue: QueueProcess;
const started: WorkerProcess[] = [];

beforeAll(async () => {
  queue = await startQueue();
});
afterEach(async () => {
  await Promise.all(started.splice(0).map((worker) => worker.process.stop()));
});
afterAll(tearDown);

async function worker(id: string, options: Parameters<typeof readyWorker>[2] = {}): Promise<WorkerProcess> {
  const ready = await readyWorker(queue.url, id, options);
  started.push(ready);
  return ready;
}

/** Waits until the queue knows that a worker is gone: it may learn so after its process has ended, by a gateway. */
function disconnected(id: string): Promise<WorkerView> {
  return until(
    async () =>
      (await workers(queue.url)).find(({ worker_id, state }) => worker_id === id && state === 'disconnected'),
    `worker ${id} is disconnected`,
  );
}

const SLOW = '--inter-token-latency-ms 20';
const client = () => new OpenAI({ baseURL: `${queue.url}/v1`, apiKey: 'none', maxRetries: 0 });

/** The worker's own process, below its supervisor. */
async function workerPid(of: WorkerProcess): Promise<number> {
  const { readFileSync } = await import('node:fs');
  const children = readFileSync(`/proc/${of.process.pid}/task/${of.process.pid}/children`, 'utf8')
    .trim()
    .split(' ');
  const pid = children.find((child) =>
    readFileSync(`/proc/${child}/cmdline`, 'utf8').includes('programs/worker.js'),
  );
  if (!pid) throw new Error('no worker process');
  return Number(pid);
}

describe('a job', () => {
  it('is finished by another worker when its own is killed', async () => {
    const first = await worker('first', { engineArgs: SLOW });
    const { id } = await submit(queue.url, chatJob(3000));
    await until(async () => (await engineRunning(first.engineUrl)) === 1, 'the first worker runs it');
    const second = await worker('second');
    process.kill(await workerPid(first), 'SIGKILL');
    const view = await settled(queue.url, id);
    expect(view).toMatchObject({ state: 'succeeded', worker_id: 'second', attempts: 2 });
    expect((await first.process.exited).code).not.toBe(0);
    expect(await processesWith(String(first.enginePort))).toEqual([]);
    await second.process.waitForLine(/taking jobs/);
  });

  it('goes on, and settles once, when the queue is killed and started again under it', async () => {
    const only = await worker('only', { engineArgs: HELD });
    const { id } = await submit(queue.url, chatJob(600));
    await until(async () => (await engineRunning(only.engineUrl)) === 1, 'the worker runs it');
    await killQueue(queue);
    queue = await startQueue({ port: queue.port, stateDir: queue.stateDir });
    await setPace(only.engineUrl, 5);
    const view = await settled(queue.url, id);
    expect(view).toMatchObject({ state: 'succeeded', attempts: 1, attempt_errors: [], worker_id: 'only' });
    const usage = (view.result as { completion: { usage: { completion_tokens: number } } }).completion.usage;
    expect(usage.completion_tokens).toBe(600);
  });

  it('that a drain leaves no time for goes to another worker without a charge, one that fits is finished', async () => {
    const leaving = await worker('leaving', {
      engineArgs: HELD,
      env: { CASOLA_SHUTDOWN_GRACE_PERIOD: '6' },
    });
    const long = await submit(queue.url, chatJob(5000));
    await until(async () => (await engineRunning(leaving.engineUrl)) === 1, 'the long one runs');
    const short = await submit(queue.url, chatJob(100));
    await until(async () => (await engineRunning(leaving.engineUrl)) === 2, 'both run');
    await setPace(leaving.engineUrl, 20);
    const staying = await worker('staying');
    leaving.process.kill('SIGTERM');
    expect(await settled(queue.url, short.id)).toMatchObject({ state: 'succeeded', worker_id: 'leaving' });
    expect(await settled(queue.url, long.id)).toMatchObject({
      state: 'succeeded',
      worker_id: 'staying',
      attempts: 1,
    });
    expect((await leaving.process.exited).code).toBe(EXIT.ok);
    expect(await processesWith(String(leaving.enginePort))).toEqual([]);
    expect(await disconnected('leaving')).toMatchObject({ status: 'stopping' });
    expect(staying.process.output()).not.toContain('"level":"error"');
  });

  it('moves on when the engine under it dies, and the container says why it ends', async () => {
    const dying = await worker('dying', { engineArgs: SLOW });
    const { id } = await submit(queue.url, chatJob(3000));
    await until(async () => (await engineRunning(dying.engineUrl)) === 1, 'it runs');
    await worker('other');
    const [engine] = await processesWith(`--port\0${dying.enginePort}`);
    process.kill(engine as number, 'SIGKILL');
    expect((await dying.process.exited).code).toBe(EXIT.engineDied);
    const view = await settled(queue.url, id);
    expect(view).toMatchObject({ state: 'succeeded', worker_id: 'other', attempts: 2 });
    const dead = await disconnected('dying');
    expect(dead).toMatchObject({ status: 'error' });
    expect(dead.error_message).toBeTruthy();
  });

  it('is not fed to an engine that dies slowly, answering 500 until its server is gone', async () => {
    const lingering = await worker('lingering');
    const faults = `${lingering.engineUrl}/simulator/faults`;
    const headers = { 'content-type': 'application/json' };
    await fetch(faults, { method: 'POST', headers, body: '{"unhealthy": true, "error_500": 1000}' });
    const first = await submit(queue.url, chatJob(5));
    await until(
      async () => (await job(queue.url, first.id)).attempt_errors.length === 1,
      'the first has failed',
    );
    const second = await submit(queue.url, chatJob(5));
    await lingering.process.waitForLine(/taking no jobs until the engine is healthy again/);
    await fetch(faults, { method: 'DELETE' });
    expect(await settled(queue.url, first.id)).toMatchObject({ state: 'succeeded', attempts: 2 });
    expect(await settled(queue.url, second.id)).toMatchObject({ state: 'succeeded', attempts: 1 });
  });

  it('is cancelled, and the engine stops generating', async () => {
    const busy = await worker('busy', { engineArgs: SLOW });
    const { id } = await submit(queue.url, chatJob(5000));
    await until(async () => (await engineRunning(busy.engineUrl)) === 1, 'it runs');
    const response = await fetch(`${queue.url}/api/jobs/${id}`, { method: 'DELETE' });
    expect(await response.json()).toMatchObject({ state: 'cancelled' });
    await until(async () => (await engineRunning(busy.engineUrl)) === 0, 'the engine runs nothing');
    expect(await job(queue.url, id)).toMatchObject({ state: 'cancelled', attempts: 1 });
  });

  it('fails with the engine’s own status and body when the engine refuses it', async () => {
    await worker('refusing');
    const { id } = await submit(
      queue.url,
      chatJob(10, { payload: { messages: [{ role: 'user', content: 'x' }], n: 0 } }),
    );
    expect(await settled(queue.url, id)).toMatchObject({
      state: 'failed',
      attempts: 1,
      error: { http_status: 400, body: { error: { type: expect.any(String) } } },
    });
  });
});

describe('a streaming caller', () => {
  it('hears an error event when the engine dies after the first token', async () => {
    const dying = await worker('dying-stream', { engineArgs: SLOW });
    const stream = await client().chat.completions.create({
      model: 'tiny',
      messages: [{ role: 'user', content: 'x' }],
      max_tokens: 5000,
      stream: true,
      ...{ ignore_eos: true },
    });
    let tokens = 0;
    const read = (async () => {
      for await (const chunk of stream) if (chunk.choices[0]?.delta.content) tokens += 1;
    })();
    await until(() => tokens > 2, 'tokens came');
    const [engine] = await processesWith(`--port\0${dying.enginePort}`);
    process.kill(engine as number, 'SIGKILL');
    await expect(read).rejects.toThrow(/broke off|EngineCore/);
  });

  it('hears 503 and when to try again while no worker is there, or waits for one if it says so', async () => {
    const none = await fetch(`${queue.url}/v1/chat/completions`, {
      method: 'POST',
      headers: REFUSED_FIRST,
      body: '{"model":"tiny","messages":[{"role":"user","content":"x"}]}',
    });
    expect([none.status, none.headers.get('retry-after')]).toEqual([503, '5']);
    const waiting = fetch(`${queue.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'x-queue-wait': '60' },
      body: '{"model":"tiny","max_tokens":3,"messages":[{"role":"user","content":"x"}]}',
    });
    await worker('late');
    expect((await waiting).status).toBe(200);
  });
});
