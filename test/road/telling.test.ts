import { afterAll, beforeAll, expect, test } from 'vitest';
import { EXIT } from '../../src/process/index.ts';
import type { Heartbeat } from '../../src/protocol/index.ts';
import { printingGpus, standInNvidiaSmi } from '../support/nvidia-smi.ts';
import { until } from '../support/poll.ts';
import { freePort } from '../support/ports.ts';
import { type Receiver, startReceiver } from '../support/receiver.ts';
import {
  chatJob,
  type QueueProcess,
  settled,
  startQueue,
  startWorker,
  submit,
  tearDown,
} from '../support/road.ts';

/** What a container tells of itself: by heartbeats, and at a port of its own. */
let queue: QueueProcess;
let api: Receiver;

beforeAll(async () => {
  queue = await startQueue();
  api = await startReceiver();
});
afterAll(async () => {
  await api.stop();
  await tearDown();
});

const GPU = { name: 'NVIDIA H100', 'memory.total': 81920 };
const GPUS = printingGpus(
  { ...GPU, 'memory.used': 61440, 'utilization.gpu': 93, 'temperature.gpu': 64, 'power.draw': 412.5 },
  { ...GPU, 'memory.used': 1024, 'utilization.gpu': 0, 'temperature.gpu': 31, 'power.draw': 70 },
);

function beatsOf(id: string): Heartbeat[] {
  const bodies = api.posts.map(({ body }) => body as unknown as Heartbeat);
  return bodies.filter(({ worker_id }) => worker_id === id);
}

async function get(port: number, path: string): Promise<{ status: number; text: string }> {
  const response = await fetch(`http://127.0.0.1:${port}${path}`);
  return { status: response.status, text: await response.text() };
}

test('a start is told with its phases, progress and times, and the first job ends it', async () => {
  const createdAt = Math.floor(Date.now() / 1000) - 30;
  const worker = await startWorker(queue.url, 'slow', {
    engineArgs: '--startup-seconds 12',
    env: {
      CASOLA_API_URL: api.url,
      CASOLA_CREATED_AT: String(createdAt),
      CASOLA_HEARTBEAT_INTERVAL: '1',
      GPU_CHECK: 'off',
      PATH: `${standInNvidiaSmi(GPUS)}:${process.env.PATH}`,
    },
  });
  await until(() => beatsOf('slow').find(({ status }) => status === 'running'), 'it runs');
  const phases = beatsOf('slow').flatMap(({ phase }) => phase ?? []);
  const order = phases.filter((phase, at) => phase !== phases[at - 1]);
  // On a busy machine the engine loads before the first heartbeat, and a short phase falls between two.
  expect(order.join(' ')).toMatch(/^(starting )?loading (compiling )?(warming )?capturing/);
  const shares = beatsOf('slow').flatMap(({ phase, progress }) =>
    phase === 'loading' ? (progress ?? []) : [],
  );
  expect(shares.length).toBeGreaterThan(1);
  expect(shares).toEqual([...shares].sort((a, b) => a - b));
  const { id } = await submit(queue.url, chatJob(8));
  await settled(queue.url, id);
  const told = await until(
    () => beatsOf('slow').find(({ start, tokens_per_second }) => start?.first_job_ms && tokens_per_second),
    'the first job and its tokens are told',
  );
  const { created_ms, engine_started_ms, weights_loaded_ms, engine_healthy_ms, first_job_ms } = told.start!;
  const times = [created_ms, engine_started_ms, weights_loaded_ms, engine_healthy_ms, first_job_ms];
  expect(created_ms).toBe(createdAt * 1000);
  expect(times).toEqual([...times].sort((a, b) => a! - b!));
  expect(told).toMatchObject({
    engine: 'simulator',
    engine_version: expect.stringMatching(/^0\./),
    model: 'tiny',
    capacity: 8,
    engine_waiting: 0,
    missed_renewals: 0,
    interval_seconds: 1,
    gpus: [
      { name: 'NVIDIA H100', memory_used_bytes: 60 * 2 ** 30, utilization: 0.93, power_watts: 412.5 },
      { name: 'NVIDIA H100', memory_total_bytes: 80 * 2 ** 30, temperature_celsius: 31 },
    ],
  });
  await worker.process.stop();
  expect(beatsOf('slow').at(-1)?.status).toBe('stopping');
});

test('at its own port a container serves health and metrics, those of its engine among them', async () => {
  const port = await freePort();
  const env = { WORKER_METRICS_PORT: String(port) };
  // It loads for nine seconds, and is not waited for to the end.
  const loading = await startWorker(queue.url, 'loading', { engineArgs: '--startup-seconds 20', env });
  const starting = await until(async () => {
    const { status, text } = await get(port, '/healthz');
    return text.includes('it starts: loading') ? { status, text } : null;
  }, 'the health says what it is doing');
  expect(starting.status).toBe(503);
  expect((await get(port, '/metrics')).text).not.toContain('vllm:num_requests_running');
  await loading.process.stop();

  const worker = await startWorker(queue.url, 'open', { env });
  const healthy = await until(async () => {
    const { status, text } = await get(port, '/healthz');
    return status === 200 ? JSON.parse(text) : null;
  }, 'it is healthy');
  expect(healthy).toMatchObject({ status: 'healthy', worker_id: 'open', model_name: 'tiny', capacity: 8 });
  const { text: page } = await get(port, '/metrics');
  expect(page).toContain('\nworker_vllm_worker_ready 1\n');
  expect(page).toContain('\nvllm:num_requests_running{');
  const types = page.match(/^# TYPE \S+/gm) ?? [];
  expect(new Set(types).size).toBe(types.length);

  const second = await startWorker(queue.url, 'second', { env });
  expect((await second.process.exited).code).toBe(EXIT.portInUse);
  expect(second.process.output()).toContain(`Port ${port} at 127.0.0.1 is in use`);
  await worker.process.stop();
});
