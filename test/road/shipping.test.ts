import { createServer } from 'node:net';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { EXIT } from '../../src/process/index.ts';
import type { LogEntry } from '../../src/process/shipping.ts';
import type { MetricSnapshot } from '../../src/worker/telemetry/metric-shipper.ts';
import { printingGpus, standInNvidiaSmi } from '../support/nvidia-smi.ts';
import { until } from '../support/poll.ts';
import { freePort } from '../support/ports.ts';
import { type Receiver, startReceiver } from '../support/receiver.ts';
import {
  chatJob,
  cli,
  type QueueProcess,
  settled,
  startQueue,
  startWorker,
  submit,
  tearDown,
  untilReady,
  type WorkerProcess,
} from '../support/road.ts';

/** Log lines and metrics of a container, as their receiver sees them. */
let queue: QueueProcess;
const receivers: Receiver[] = [];
/** The first of several GPUs is told. */
const GPUS = printingGpus(
  { name: 'H100', 'memory.used': 1024, 'memory.total': 24576, 'utilization.gpu': 37, 'temperature.gpu': 61 },
  { name: 'H100', 'memory.used': 5, 'memory.total': 5, 'utilization.gpu': 5, 'temperature.gpu': 5 },
);
const started: WorkerProcess[] = [];

beforeAll(async () => {
  queue = await startQueue();
});
afterEach(async () => {
  await Promise.all(started.splice(0).map((worker) => worker.process.stop()));
  await Promise.all(receivers.splice(0).map((receiver) => receiver.stop()));
});
afterAll(tearDown);

async function container(id: string, options: Parameters<typeof startWorker>[2]): Promise<WorkerProcess> {
  const worker = await startWorker(queue.url, id, options);
  started.push(worker);
  return worker;
}

async function receiver(options: Parameters<typeof startReceiver>[0] = {}): Promise<Receiver> {
  const started = await startReceiver(options);
  receivers.push(started);
  return started;
}

/** Every entry that the receiver has taken, in order of arrival. */
function entries({ posts }: Receiver): LogEntry[] {
  return posts
    .filter(({ path, status }) => path === '/logs' && status === 200)
    .flatMap(({ body }) => body.entries as LogEntry[]);
}

function find(from: Receiver, text: string): LogEntry | undefined {
  return entries(from).find(({ message }) => message.includes(text));
}

describe('log lines', () => {
  it('of engine, worker and supervisor arrive with their source, and no line twice', async () => {
    const logs = await receiver();
    const worker = await container('speaking', {
      env: {
        CASOLA_LOGS_URL: `${logs.url}/logs`,
        CASOLA_LOG_FLUSH_INTERVAL: '0.2',
        CASOLA_API_TOKEN: 'hush-hush',
      },
    });
    await until(() => find(logs, 'taking jobs'), 'the worker says that it takes jobs');
    await until(() => find(logs, 'Application startup complete'), 'the engine speaks');
    await until(() => find(logs, 'engine: ready'), 'the supervisor speaks');
    expect(find(logs, 'taking jobs')).toMatchObject({ source: 'worker', level: 'info', config_id: 'cfg' });
    expect(find(logs, 'Application startup complete')).toMatchObject({ source: 'vllm', level: 'info' });
    expect(find(logs, 'starting simulator')).toMatchObject({ source: 'worker' });
    for (const { authorization, body } of logs.posts) {
      expect(authorization).toBe('Bearer hush-hush');
      expect(body).toMatchObject({ instance_id: 'speaking', queue_id: 'vllm-queue' });
      expect(JSON.stringify(body)).not.toContain('hush-hush');
    }
    await worker.process.stop();
    expect((await worker.process.exited).code).toBe(EXIT.ok);
    expect(find(logs, 'worker ended')).toMatchObject({ source: 'worker' });
    // What was printed is what arrived: no line is lost, and none comes twice.
    const printed = worker.process
      .output()
      .split('\n')
      .filter((line) => line.startsWith('{'))
      .map((line) => JSON.parse(line));
    const of = (source: string) => entries(logs).filter((entry) => entry.source === source);
    expect(of('vllm').map(({ message }) => message)).toEqual(
      printed.filter(({ name }) => name === 'engine').map(({ msg }) => msg),
    );
    expect(of('worker')).toHaveLength(printed.filter(({ name }) => name !== 'engine').length);
  });

  it('that nobody takes change nothing for jobs, and arrive whole once somebody does', async () => {
    const port = await freePort();
    const worker = await container('unheard', {
      env: { CASOLA_LOGS_URL: `http://127.0.0.1:${port}/logs`, CASOLA_LOG_FLUSH_INTERVAL: '0.2' },
    });
    await worker.process.waitForLine(/log lines do not arrive/);
    await untilReady(queue.url, 'unheard');
    const logs = await receiver({ port, status: 500 });
    await until(() => logs.posts.length > 4, 'batches are refused');
    const { id } = await submit(queue.url, chatJob(8));
    expect(await settled(queue.url, id)).toMatchObject({ state: 'succeeded', worker_id: 'unheard' });
    const complaints = () => worker.process.output().match(/log lines do not arrive/g) ?? [];
    await until(() => complaints().length >= 2, 'the supervisor and the worker log it');
    expect(complaints()).toHaveLength(2);
    logs.status = 200;
    await until(() => find(logs, 'worker starting') && find(logs, 'taking jobs'), 'the first lines arrive');
    await until(
      () => worker.process.output().match(/log lines arrive at CASOLA_LOGS_URL again/g)?.length === 2,
      'both processes say that it works again',
    );
    // A line about lines would be one to send in its turn.
    expect(find(logs, 'log lines')).toBe(undefined);
    await worker.process.stop();
  });

  it('of an engine that dies arrive before the end, with the cause', async () => {
    const logs = await receiver();
    const worker = await container('dying', {
      engineArgs: "--fault 'start_failure=CUDA out of memory'",
      env: { CASOLA_LOGS_URL: `${logs.url}/logs`, CASOLA_LOG_FLUSH_INTERVAL: '3600' },
    });
    expect((await worker.process.exited).code).toBe(EXIT.outOfMemory);
    expect(find(logs, 'CUDA out of memory')).toMatchObject({ source: 'vllm', level: 'error' });
    expect(find(logs, 'simulator failed to start')).toMatchObject({ source: 'worker', level: 'error' });
    expect(find(logs, 'worker ended')).toMatchObject({ source: 'worker' });
  });

  it('include the error that ends a container before anything is started', async () => {
    const logs = await receiver();
    const taken = createServer().listen(0, '127.0.0.1');
    await until(() => taken.listening, 'the port is taken');
    const { port } = taken.address() as { port: number };
    const worker = await container('refused', {
      env: { CASOLA_LOGS_URL: `${logs.url}/logs`, VLLM_PORT: String(port) },
    });
    expect((await worker.process.exited).code).toBe(EXIT.portInUse);
    expect(find(logs, `Port ${port}`)).toMatchObject({ source: 'worker', level: 'error' });
    taken.close();
  });

  it('do not hold up the end when the receiver never answers', async () => {
    const logs = await receiver({ status: null });
    const worker = await container('held', {
      env: { CASOLA_LOGS_URL: `${logs.url}/logs`, CASOLA_LOG_FLUSH_INTERVAL: '0.2' },
    });
    await untilReady(queue.url, 'held');
    await until(() => logs.posts.length >= 2, 'both processes wait for an answer');
    worker.process.kill('SIGTERM');
    expect(await worker.process.exited).toEqual({ code: EXIT.ok, signal: null });
    expect(worker.process.output()).not.toContain('did not end in time');
  });

  it('are refused an address that is none, along with every other bad variable', async () => {
    const worker = await container('misled', {
      env: {
        CASOLA_LOGS_URL: 'logs.example',
        CASOLA_METRICS_URL: 'ftp://metrics.example',
        CASOLA_LOG_FLUSH_INTERVAL: 'often',
        CASOLA_MAX_JOBS: 'many',
      },
    });
    expect((await worker.process.exited).code).toBe(EXIT.configuration);
    const output = worker.process.output();
    for (const name of ['CASOLA_LOGS_URL', 'CASOLA_METRICS_URL', 'CASOLA_LOG_FLUSH_INTERVAL']) {
      expect(output).toMatch(new RegExp(`${name}=.*expected`));
    }
    expect(output).toContain('CASOLA_MAX_JOBS="many"');
  });
});

describe('metrics', () => {
  it('of the engine and the first GPU arrive with the names of the container', async () => {
    const metrics = await receiver();
    const first = await container('measured', {});
    await untilReady(queue.url, 'measured');
    const worker = cli(
      ['work'],
      {
        ENGINE_URL: first.engineUrl,
        CASOLA_WS_URL: queue.url.replace('http', 'ws'),
        CASOLA_CONFIG_ID: 'cfg',
        CASOLA_INSTANCE_ID: 'measuring',
        CASOLA_API_TOKEN: 'hush-hush',
        CASOLA_METRICS_URL: `${metrics.url}/metrics`,
        PATH: `${standInNvidiaSmi(GPUS)}:${process.env.PATH}`,
      },
      'worker alone',
    );
    const post = await until(() => metrics.posts[0], 'a snapshot arrives');
    expect(post).toMatchObject({
      path: '/metrics',
      authorization: 'Bearer hush-hush',
      body: { instance_id: 'measuring', queue_id: 'vllm-queue', config_id: 'cfg' },
    });
    // The first one leaves out what engine and driver did not tell in time; the next one is due after 30 s.
    const snapshot = await until(
      () =>
        metrics.posts
          .flatMap(({ body }) => body.snapshots as MetricSnapshot[])
          .find((one) => one.vllm_waiting_requests !== undefined && one.gpu_memory_used_mb !== undefined),
      'a snapshot with what engine and driver say',
    );
    expect(snapshot).toEqual({
      timestamp: expect.any(Number),
      worker_uptime_s: expect.any(Number),
      gpu_memory_used_mb: 1024,
      gpu_memory_total_mb: 24576,
      gpu_utilization_pct: 37,
      gpu_temperature_c: 61,
      vllm_running_requests: 0,
      vllm_waiting_requests: 0,
    });
    await worker.stop();
  });
});
