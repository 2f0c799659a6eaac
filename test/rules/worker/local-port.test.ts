import { afterEach, expect, test } from 'vitest';
import { EXIT } from '../../../src/process/index.ts';
import { joinPages, type LocalPort, openLocalPort } from '../../../src/worker/telemetry/local-port.ts';
import { freePort } from '../../support/ports.ts';
import { settled } from '../../support/virtual-clock.ts';
import { STREAM_JOB, WorkerBench } from '../../support/worker-fakes.ts';

const GIB = 2 ** 30;
const open: LocalPort[] = [];
afterEach(() => {
  for (const port of open.splice(0)) port.close();
});

async function serving(bench: WorkerBench): Promise<string> {
  const port = await freePort();
  open.push(await openLocalPort({ host: '127.0.0.1', port }, bench.worker.status, bench.engine));
  return `http://127.0.0.1:${port}`;
}

async function health(url: string): Promise<[number, Record<string, unknown>]> {
  const response = await fetch(`${url}/healthz`);
  return [response.status, (await response.json()) as Record<string, unknown>];
}

test('/healthz says what the worker is doing, and is 200 only while it takes jobs', async () => {
  const bench = new WorkerBench({ capacity: 4 });
  bench.gpus = [
    { name: 'H100', memory_used_bytes: 60 * GIB, memory_total_bytes: 80 * GIB },
    { name: 'H100', memory_used_bytes: 61 * GIB, memory_total_bytes: 80 * GIB },
  ];
  const url = await serving(bench);
  bench.worker.start();
  await settled();
  bench.worker.enginePhase({ phase: 'loading', progress: 0.625, atMs: bench.clock.now() });
  expect(await health(url)).toMatchObject([
    503,
    { status: 'unhealthy', reason: 'it starts: loading, 62 %', gpu_memory_used: 121 * GIB },
  ]);
  bench.queue.open();
  bench.worker.engineHealthy(['tiny']);
  bench.queue.grant();
  await settled();
  await bench.push();
  expect(await health(url)).toEqual([
    200,
    {
      status: 'healthy',
      worker_id: 'w',
      config_id: 'config',
      model_name: 'tiny',
      engine: null,
      engine_version: '0.32.0',
      running: 1,
      capacity: 4,
      gpu_memory_used: 121 * GIB,
      gpu_memory_total: 160 * GIB,
      gpus: bench.gpus,
    },
  ]);
  bench.worker.engineUnhealthy('refused');
  expect(await health(url)).toMatchObject([
    503,
    { reason: expect.stringContaining('engine is not healthy') },
  ]);
  bench.worker.engineHealthy(['tiny']);
  bench.worker.drain();
  expect(await health(url)).toMatchObject([503, { reason: expect.stringContaining('drains') }]);
});

test('/metrics has our figures, then the page of the engine as it stands', async () => {
  const bench = new WorkerBench({ capacity: 4, createdAtMs: new Date('2025-12-31T23:59:00Z').getTime() });
  bench.gpus = [{ name: 'H100', memory_used_bytes: 60 * GIB, utilization: 0.5, power_watts: 412 }];
  bench.engine.page = '# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{engine="0"} 3.0';
  const url = await serving(bench);
  await bench.ready();
  await bench.push(STREAM_JOB);
  await bench.clock.advance(250);
  const usage = '"usage":{"prompt_tokens":5,"completion_tokens":7}';
  bench.engine.last.head(200, 'text/event-stream').write(`data: {${usage}}\n\ndata: [DONE]\n\n`).end();
  await settled();
  await bench.push({ job_id: 'j2', fence_token: 2 });
  const response = await fetch(`${url}/metrics`);
  const page = await response.text();
  expect(response.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8');
  for (const line of [
    'worker_vllm_worker_ready 1',
    'worker_vllm_worker_slots{state="busy"} 1',
    'worker_vllm_worker_slots{state="free"} 3',
    'worker_vllm_worker_attempts_total{result="succeeded"} 1',
    'worker_vllm_worker_attempts_total{result="failed"} 0',
    'worker_vllm_worker_tokens_total{kind="input"} 5',
    'worker_vllm_worker_tokens_total{kind="output"} 7',
    'worker_vllm_worker_first_token_seconds_sum 0.25',
    'worker_vllm_worker_missed_renewals_total 0',
    'worker_vllm_worker_start_seconds{step="engine_healthy"} 60',
    `worker_vllm_worker_gpu_memory_used_bytes{gpu="0",name="H100"} ${60 * GIB}`,
    'worker_vllm_worker_gpu_power_watts{gpu="0",name="H100"} 412',
  ]) {
    expect(page.split('\n')).toContain(line);
  }
  expect(page).toMatch(/worker_vllm_worker_info\{worker_id="w",.*engine_version="0\.32\.0"/);
  expect(page.endsWith(`${bench.engine.page}\n`)).toBe(true);
});

test('of a family that both pages have only that of the engine is shown', () => {
  const ours = [
    { name: 'a_total', text: '# HELP a_total A.\n# TYPE a_total counter\na_total 1' },
    { name: 'b', text: '# HELP b B.\n# TYPE b gauge\nb 1\n' },
    { name: 'c', text: '# HELP c C.\n# TYPE c gauge\nc 1\n' },
  ];
  expect(joinPages(ours, '# HELP b Theirs.\n# TYPE b counter\nb 7\nc{x="1"} 8\n# EOF\n')).toBe(
    '# HELP a_total A.\n# TYPE a_total counter\na_total 1\n# HELP b Theirs.\n# TYPE b counter\nb 7\nc{x="1"} 8\n',
  );
  expect(joinPages(ours.slice(1, 2), '')).toBe('# HELP b B.\n# TYPE b gauge\nb 1\n');
});

test('other paths and methods are refused, and a port in use is named', async () => {
  const bench = await new WorkerBench().ready();
  const url = await serving(bench);
  expect((await fetch(`${url}/`)).status).toBe(404);
  expect((await fetch(`${url}/metrics`, { method: 'POST' })).status).toBe(405);
  const { port } = new URL(url);
  const again = openLocalPort({ host: '127.0.0.1', port: Number(port) }, bench.worker.status, bench.engine);
  await expect(again).rejects.toMatchObject({
    exitCode: EXIT.portInUse,
    message: expect.stringContaining('WORKER_METRICS_PORT'),
  });
});
