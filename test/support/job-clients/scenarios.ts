import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { FaultyProxy } from '../faulty-proxy.ts';
import { until } from '../poll.ts';
import { closeRawWorkers, RawWorker } from '../raw-worker.ts';
import {
  chatJob,
  killQueue,
  type QueueProcess,
  readyWorker,
  startQueue,
  startWorker,
  tearDown,
  type WorkerProcess,
} from '../road.ts';
import { oneByOne } from './one-by-one.ts';
import type { Call, Job, Options, Program } from './program.ts';
import { closeScriptedServers } from './scripted-server.ts';
import { unreadableFrames } from './unreadable.ts';

/**
 * What a client for stored jobs has to do, in whatever language it is written: every program of one runs the same
 * scenarios, over a queue with its gateway, a worker and the simulator.
 */
export function jobClientScenarios(startProgram: () => Promise<Program>): void {
  let program: Program;

  beforeAll(async () => {
    program = await startProgram();
  });
  afterEach(() => {
    closeScriptedServers();
    closeRawWorkers();
    expect(program.complaints).toBe('');
  });
  afterAll(() => program.stop());

  describe('a client for one job at a time', () => oneByOne(() => program));
  describe('a connection for many jobs', () => manyAtOnce(() => program));
  describe('a queue that cannot be understood', () => unreadableFrames(() => program));
}

function manyAtOnce(program: () => Program): void {
  let queue: QueueProcess;
  let worker: WorkerProcess;
  let network: FaultyProxy;
  let scenarios = 0;

  beforeAll(async () => {
    queue = await startQueue({ env: { QUEUE_IDS: '*', QUEUE_MAX_PENDING: '400' } });
    worker = await readyWorker(queue.url, 'w');
    network = await new FaultyProxy(queue.port, Math.random).listen();
  });
  afterEach(() => network.heal());
  afterAll(async () => {
    await network.close();
    await tearDown();
  });

  const through = (more: Partial<Options> = {}) =>
    program().connection({ url: `http://127.0.0.1:${network.port}`, ...more });
  const direct = (more: Partial<Options> = {}) => program().client({ url: queue.url, ...more });
  const chats = (prefix: string, count: number): Job[] =>
    Array.from({ length: count }, (_, n) => chatJob(2, { id: `${prefix}-${n}` }));
  const newQueue = () => `of-scenario-${++scenarios}`;

  /** A worker of a queue of its own that the test plays. */
  async function playedWorker(queueId: string): Promise<RawWorker> {
    const played = await new RawWorker(queue.url).connect(queueId);
    return await played.register('w', { capacity: 16 });
  }

  /** How many requests the engine has answered. */
  async function answered(): Promise<number> {
    const text = await (await fetch(`${worker.engineUrl}/metrics`)).text();
    const counts = text.matchAll(/^vllm:request_success_total(?:\{[^}]*\})? (\S+)$/gm);
    return [...counts].reduce((sum, [, count]) => sum + Number(count), 0);
  }

  /** Every job came back once, with an answer. */
  async function expectAll(jobs: Job[], { value, ends }: Call<unknown>): Promise<void> {
    await value;
    expect(ends.map(({ id }) => id).toSorted()).toEqual(jobs.map(({ id }) => id).toSorted());
    expect(ends.filter(({ job }) => job?.state !== 'succeeded' || job.result === null)).toEqual([]);
  }

  it('has one job go its way, submitted, read, waited for and cancelled by requests', async () => {
    const client = direct();
    const { id, state } = await client.submit(chatJob(2));
    expect(['pending', 'leased']).toContain(state);
    expect(await client.wait(id).value).toMatchObject({ id, state: 'succeeded', attempts: 1 });
    expect(await client.get(id)).toMatchObject({
      result: { completion: { usage: { completion_tokens: 2 } } },
    });
    expect((await client.ledger(id)).map(({ step }) => step)).toContain('settled');
    // The same again is the same job; another under its id is refused.
    expect(await client.submit(chatJob(2, { id }))).toMatchObject({ id, state: 'succeeded' });
    await expect(client.submit(chatJob(3, { id }))).rejects.toMatchObject({ status: 409 });
    const waits = await client.submit(chatJob(2, { config_id: 'nobody' }));
    expect(await client.cancel(waits.id)).toMatchObject({ state: 'cancelled' });
    await expect(client.get('no-such-job')).rejects.toMatchObject({ status: 404, code: 'job_not_found' });
  });

  it('runs many jobs and gives each back once, as it ends', async () => {
    const before = await answered();
    const jobs = chats('many', 300);
    await expectAll(jobs, through({ in_flight: 100 }).results(jobs));
    expect(await answered()).toBe(before + 300);
  });

  it('says of each job that is not taken why, and goes on with the others', async () => {
    const [first, last] = chats('odd', 2) as [Job, Job];
    const odd = chatJob(2, { id: 'odd', job_type: 'engine_request', payload: { path: '/sleep' } });
    const large = chatJob(2, { id: 'large', payload: { text: 'x'.repeat(22 * 1024 * 1024) } });
    const { value, ends } = through().results([first, odd, large, last]);
    await value;
    const found = Object.fromEntries(ends.map((end) => [end.id, end]));
    expect(found.odd).toMatchObject({
      error: { status: 400, message: expect.stringContaining('/sleep'), cause: null },
    });
    expect(found.large).toMatchObject({
      error: { status: 413, code: 'too_large', message: 'The job "large" is larger than 20 MiB.' },
    });
    expect([found['odd-0'], found['odd-1']]).toMatchObject(Array(2).fill({ job: { state: 'succeeded' } }));
  });

  it('loses nothing and runs nothing twice when the network breaks again and again', async () => {
    const before = await answered();
    const jobs = chats('cut', 300);
    const call = through({ in_flight: 50 }).results(jobs);
    for (const share of [20, 80, 150, 220]) {
      await until(() => call.ends.length >= share, `${share} jobs to end`);
      network.cut();
    }
    await expectAll(jobs, call);
    expect(await answered()).toBe(before + 300);
  });

  it('submits again what was taken when nobody heard so, and it runs once', async () => {
    const before = await answered();
    const connection = through();
    // While it is open, the connection is there.
    const waits = connection.run(chatJob(2, { id: 'waits', config_id: 'nobody' }));
    await until(() => direct({ retries: 0 }).get('waits'), 'it to be taken');
    const jobs = chats('unheard', 20);
    network.loseNextAnswer();
    await expectAll(jobs, connection.results(jobs));
    expect(await answered()).toBe(before + 20);
    await direct().cancel('waits');
    expect(await waits).toMatchObject({ state: 'cancelled' });
  });

  it('goes on when the network goes away and nobody is told', async () => {
    const queueId = newQueue();
    const played = await playedWorker(queueId);
    const ended = through({ queue_id: queueId, ping_seconds: 0.5 }).run(chatJob(2));
    const job = await played.job();
    network.halfOpen('neither');
    played.result(job);
    expect(await ended).toMatchObject({ state: 'succeeded' });
  });

  it('goes on after the queue was killed, and every job has ended once', async () => {
    const before = await answered();
    const jobs = chats('killed', 300);
    const call = through({ in_flight: 50 }).results(jobs);
    await killQueue(queue, () => until(() => call.ends.length >= 60, '60 jobs to end'));
    const { port, stateDir } = queue;
    queue = await startQueue({ port, stateDir, env: { QUEUE_IDS: '*', QUEUE_MAX_PENDING: '400' } });
    await expectAll(jobs, call);
    expect(await answered()).toBeGreaterThanOrEqual(before + 300);
  });

  it('tells of a job that had ended before it was submitted again, which does not run', async () => {
    const job = chatJob(2, { id: 'same' });
    const first = await through().run(job);
    const before = await answered();
    expect(await through().run(job)).toEqual(first);
    expect(await answered()).toBe(before);
  });

  it('refuses an id that is in flight, and another job under one that ended', async () => {
    const connection = through();
    const id = 'in-flight';
    const [first, second] = [connection.run(chatJob(2, { id })), connection.settle(chatJob(2, { id }))];
    expect(await second).toMatchObject({
      error: { status: 409, message: `A job with the id "${id}" is in flight on this connection.` },
    });
    expect(await first).toMatchObject({ state: 'succeeded' });
    await expect(connection.run(chatJob(3, { id }))).rejects.toMatchObject({ status: 409 });
  });

  it('waits while the queue is full', async () => {
    const queueId = newQueue();
    const jobs = chats('full', 500);
    const call = through({ queue_id: queueId, in_flight: 600 }).results(jobs);
    await until(async () => {
      const response = await fetch(`${queue.url}/health`, { headers: { 'x-queue-id': queueId } });
      return ((await response.json()) as { pending: number }).pending === 400;
    }, 'the queue to be full');
    const env = { CASOLA_QUEUE_ID: queueId };
    const more = await startWorker(queue.url, `worker-of-${queueId}`, { env });
    await expectAll(jobs, call);
    await more.process.stop();
  });

  it('reads a result too long for a frame at its own address', async () => {
    const queueId = newQueue();
    const played = await playedWorker(queueId);
    const ended = through({ queue_id: queueId }).run(chatJob(2));
    played.result(await played.job(), { status: 'success', text: 'x'.repeat(3_000_000) });
    expect(((await ended).result as { text: string }).text).toHaveLength(3_000_000);
  });

  it('reads its source only as far as there is room', async () => {
    const jobs = chats('room', 40);
    const call = through({ in_flight: 5 }).results(jobs, 3);
    const listed = async () => {
      const answer = await fetch(`${queue.url}/api/jobs?id_prefix=room-`);
      return ((await answer.json()) as { jobs: { state: string }[] }).jobs;
    };
    await until(async () => {
      const states = (await listed()).map(({ state }) => state);
      return states.length === 8 && states.every((state) => state === 'succeeded');
    }, 'three jobs to be read and five to wait for their reader');
    call.stop();
    expect(await call.value).toBe('stopped');
    expect(call.ends).toHaveLength(3);
    expect(await listed()).toHaveLength(8);
  });

  it('ends with an error when it is closed', async () => {
    const connection = through({ queue_id: newQueue() });
    const ended = connection.run(chatJob(2, { config_id: 'nobody' }));
    await connection.close();
    await expect(ended).rejects.toMatchObject({ code: 'closed', status: null });
    await expect(connection.run(chatJob(2))).rejects.toMatchObject({ code: 'closed' });
  });

  it('says why it is denied', async () => {
    const guarded = await startQueue({ env: { QUEUE_TOKENS: 'submit:secret-of-the-test' } });
    const options = { url: guarded.url, token: 'wrong-secret' };
    await expect(program().connection(options).run(chatJob(2))).rejects.toMatchObject({
      status: 401,
      message: expect.stringMatching(/token/),
    });
    const good = program().connection({ ...options, token: 'secret-of-the-test' });
    const odd = chatJob(2, { job_type: 'engine_request', payload: { path: '/sleep' } });
    await expect(good.run(odd)).rejects.toMatchObject({ status: 400 });
    await guarded.process.stop();
  });
}
