import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { EXIT } from '../../src/process/index.ts';
import { BaseQueue } from '../support/base-queue.ts';
import { until } from '../support/poll.ts';
import { engineRunning, HELD, setPace, startWorker, tearDown, type WorkerProcess } from '../support/road.ts';

/** Our worker against a queue that knows only the deployed base protocol. */
const queues: BaseQueue[] = [];
const workers: WorkerProcess[] = [];
afterEach(async () => {
  await Promise.all(workers.splice(0).map((worker) => worker.process.stop()));
  for (const queue of queues.splice(0)) queue.close();
});
afterAll(tearDown);

async function connected(options: Parameters<typeof startWorker>[2] = {}) {
  const queue = new BaseQueue();
  queues.push(queue);
  const url = await queue.listen();
  const worker = await startWorker(url, 'base-test', {
    ...options,
    env: { CASOLA_API_TOKEN: 'secret-token', ...options.env },
  });
  workers.push(worker);
  await until(() => queue.of('register')[0], 'the worker registered');
  return { queue, worker };
}

const payload = (maxTokens: number) => ({
  messages: [{ role: 'user', content: 'What is the capital of France?' }],
  max_tokens: maxTokens,
  ignore_eos: true,
});

describe('our worker with a base queue', () => {
  it('registers, runs a job without a job type, and settles in the base form', async () => {
    const { queue } = await connected();
    expect(queue.authorizations).toEqual(['Bearer secret-token']);
    expect(queue.of('register')[0]).toMatchObject({ worker_id: 'base-test', config_id: 'cfg', capacity: 8 });
    queue.push({ job_id: 'j1', mode: 'persisted', fence_token: 7, payload: payload(5) });
    const result = await until(() => queue.of('job_result')[0], 'a result');
    expect(result).toMatchObject({
      job_id: 'j1',
      fence_token: 7,
      result: {
        status: 'success',
        processed_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
        completion: {
          model: 'tiny',
          choices: [{ index: 0, message: { role: 'assistant' }, finish_reason: 'length' }],
          usage: { completion_tokens: 5 },
        },
      },
    });
  });

  it('answers with the model of its engine whatever name the caller wrote', async () => {
    const { queue, worker } = await connected();
    for (const [job_id, model] of Object.entries({ alien: 'gpt-4o', pool: 'cfg', own: 'tiny' })) {
      queue.push({ job_id, payload: { task: 'openai/chat-completion', model, ...payload(2) } });
    }
    await until(() => queue.of('job_result').length === 3, 'three results');
    for (const { result } of queue.of('job_result')) {
      expect(result).toMatchObject({ config_id: 'cfg', completion: { model: 'tiny' } });
    }
    queue.push({ job_id: 'bad', payload: { ...payload(2), temperature: 9 } });
    await until(() => queue.of('job_error')[0], 'an error');
    await worker.process.waitForLine(/"job_id":"bad","code":"invalid_request","msg":"job failed: /);
  });

  it('says what went wrong in the base form, and never leaves a job unanswered', async () => {
    const { queue } = await connected();
    queue.push({ job_id: 'null', mode: 'persisted', fence_token: 1, payload: null });
    queue.push({ job_id: 'list', mode: 'transient', payload: [] });
    queue.push({
      job_id: 'long',
      mode: 'persisted',
      fence_token: 2,
      payload: { ...payload(1), temperature: 9 },
    });
    queue.push({ job_id: 'task', mode: 'persisted', fence_token: 3, payload: { task: 'fal/text-to-image' } });
    queue.push({ job_id: 'n', mode: 'persisted', fence_token: 4, payload: { ...payload(1), n: 0 } });
    await until(() => queue.of('job_error').length === 5, 'five errors');
    const errors = new Map(queue.of('job_error').map((frame) => [frame.job_id, String(frame.error)]));
    expect(errors.get('null')).toContain('payload');
    expect(errors.get('list')).toContain('payload');
    expect(errors.get('long')).toContain('temperature');
    expect(errors.get('task')).toContain('fal/text-to-image');
    expect(errors.get('n')).toMatch(/^Error code: 400 - /);
  });

  it('aborts the engine when a job is revoked, and sends nothing of it', async () => {
    const { queue, worker } = await connected({ engineArgs: '--inter-token-latency-ms 20' });
    queue.push({ job_id: 'j', mode: 'persisted', fence_token: 1, payload: payload(5000) });
    await until(async () => (await engineRunning(worker.engineUrl)) === 1, 'it runs');
    queue.send({ type: 'job_revoked', job_id: 'j', reason: 'cancelled' });
    await until(async () => (await engineRunning(worker.engineUrl)) === 0, 'it stopped');
    queue.push({ job_id: 'k', mode: 'persisted', fence_token: 2, payload: payload(2) });
    await until(() => queue.of('job_result')[0], 'the next job is done');
    expect(queue.frames.filter((frame) => frame.job_id === 'j')).toEqual([]);
  });

  it('sends a result that was ready while the connection was down when it is back', async () => {
    const { queue, worker } = await connected({ engineArgs: HELD });
    queue.push({ job_id: 'j', mode: 'persisted', fence_token: 1, payload: payload(200) });
    await until(async () => (await engineRunning(worker.engineUrl)) === 1, 'it runs');
    queue.cut();
    // A base queue acknowledges nothing: what the worker sends before it notices the cut is lost.
    await until(() => worker.process.output().includes('control socket closed'), 'the worker has noticed');
    await setPace(worker.engineUrl, 0);
    const result = await until(() => queue.of('job_result')[0], 'the result arrives', { timeoutMs: 40_000 });
    expect(result).toMatchObject({ job_id: 'j', fence_token: 1 });
    expect(queue.connections).toBe(2);
    expect(queue.of('register')).toHaveLength(2);
  });

  it('never uses a frame the base queue does not know', async () => {
    const { queue, worker } = await connected({ engineArgs: '--inter-token-latency-ms 20' });
    queue.push({ job_id: 'j', mode: 'persisted', fence_token: 1, payload: payload(100) });
    await until(() => queue.of('job_result')[0], 'the result arrives');
    worker.process.kill('SIGTERM');
    expect((await worker.process.exited).code).toBe(EXIT.ok);
    const types = new Set(queue.frames.map((frame) => frame.type));
    expect([...types].sort()).toEqual(['drain', 'job_result', 'register']);
  });

  it('tells its life in heartbeats: starting, running, stopping', async () => {
    const { queue, worker } = await connected();
    await until(() => queue.heartbeats.some((beat) => beat.status === 'running'), 'it says running');
    worker.process.kill('SIGTERM');
    await worker.process.exited;
    const statuses = queue.heartbeats.map((beat) => beat.status);
    expect(statuses[0]).toBe('starting');
    expect(statuses.at(-1)).toBe('stopping');
    expect(queue.heartbeats[0]).toMatchObject({ instance_id: 'base-test', queue_id: 'vllm-queue' });
    expect(worker.process.output()).not.toContain('secret-token');
  });
});
