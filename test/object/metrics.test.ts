import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type MetricsRoad, startMetricsRoad } from '../support/metrics-road.ts';

/** What Prometheus and an autoscaler are told, from the objects in a real process that have run jobs. */
let road: MetricsRoad;

beforeAll(async () => {
  road = await startMetricsRoad();
});
afterAll(() => road.stop());

const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');

/** With their labels: there once a worker has told how long it took to start, and once a slot with a price was held. */
const WITHOUT_SAMPLES: Record<string, string> = {
  worker_vllm_alias_fall_backs_total: 'counter alias, cause',
  worker_vllm_expected_start_seconds: 'gauge pool',
  worker_vllm_cost_dollars_total: 'counter pool, tenant',
  worker_vllm_mirrored_requests_total: 'counter alias, model, outcome',
};

it('GET /metrics shows what has happened, with zeros for what has not', async () => {
  await road.runJobs('happened');
  const text = await road.metrics('happened');
  for (const expected of [
    'worker_vllm_jobs_submitted_total{pool="cfg",mode="stored"} 2',
    'worker_vllm_jobs_settled_total{pool="cfg",mode="stored",outcome="failed"} 0',
    'worker_vllm_queue_wait_seconds_bucket{pool="cfg",le="+Inf"} 2',
    'worker_vllm_running_jobs{pool="cfg",mode="stored"} 1',
    'worker_vllm_slots{pool="cfg",state="busy"} 1',
  ]) {
    expect(text.split('\n')).toContain(expected);
  }
});

it('GET /metrics asks for the scope read and says its format', async () => {
  expect((await fetch(`${road.url}/metrics`)).status).toBe(401);
  const answer = await road.get('format', '/metrics');
  expect(answer.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8');
});

it('GET /api/scale says what an autoscaler needs', async () => {
  await road.runJobs('scaled');
  expect(await (await road.get('scaled', '/api/scale?config_id=cfg')).json()).toEqual({
    config_id: 'cfg',
    pending: 0,
    running: 1,
    pending_and_running: 1,
    slots: 1,
    slots_per_worker: 1,
    workers: 1,
    ready_workers: 1,
    wanted_workers: 1,
  });
  expect(await (await road.get('scaled', '/api/scale?config_id=nobody')).json()).toMatchObject({
    pending: 0,
    slots_per_worker: null,
    wanted_workers: 0,
  });
});

it('GET /healthz names the models and the memory of the GPUs', async () => {
  await road.runJobs('healthy');
  const gpus = [{ memory_used_bytes: 61e9, memory_total_bytes: 80e9 }];
  const beat = { instance_id: 'w', worker_id: 'w', config_id: 'cfg', status: 'running', gpus };
  await fetch(`${road.url}/api/heartbeats`, {
    method: 'POST',
    headers: road.headers('healthy'),
    body: JSON.stringify(beat),
  });
  const wanted = {
    status: 'ok',
    models: ['tiny'],
    gpu_memory_used_bytes: 61e9,
    gpu_memory_total_bytes: 80e9,
  };
  const health = async () => (await road.get('healthy', '/healthz')).json();
  expect(await health()).toMatchObject(wanted);
});

it('docs/metrics.md lists the names that there are, with type and labels', async () => {
  await road.runJobs('listed');
  const text = await road.metrics('listed');
  const shown = [...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name, type]) => {
    const sample = new RegExp(`^${name}(?:_bucket)?(?:\\{(.*?)\\})? `, 'm').exec(text)?.[1] ?? '';
    const labels = [...sample.matchAll(/(\w+)="/g)]
      .map((match) => match[1])
      .filter((label) => label !== 'le');
    return `${name} ${type} ${labels.join(', ')}`.trim();
  });
  const document = read('docs/metrics.md');
  const listed = [...document.matchAll(/^\| `(worker_vllm_\w+)` \| (\w+) \| ([^|]*) \|/gm)].map(
    ([, name, type, labels = '']) =>
      `${name} ${type} ${labels.replaceAll('`', '').replace(/^–$/, '')}`.trim(),
  );
  const whole = (line: string) => {
    const [name = ''] = line.split(' ');
    return name in WITHOUT_SAMPLES ? `${name} ${WITHOUT_SAMPLES[name]}` : line;
  };
  expect(shown.map(whole).toSorted()).toEqual(listed.toSorted());
});

it.each(['deploy/grafana/worker-vllm.json', 'deploy/prometheus/rules.yaml'])(
  'every name in an expression of %s is in GET /metrics',
  async (path) => {
    const file = read(path);
    await road.runJobs(path.replaceAll('/', '-'));
    const text = await road.metrics(path.replaceAll('/', '-'));
    const names = new Set([...file.matchAll(/\bworker_vllm_\w+/g)].map(([name]) => name));
    const shown = new Set([
      ...Object.keys(WITHOUT_SAMPLES),
      ...[...text.matchAll(/^(worker_vllm_\w+)/gm)].map(([name]) => name),
    ]);
    expect(names.size).toBeGreaterThan(9);
    expect([...names].filter((name) => !shown.has(name))).toEqual([]);
    // What a rule records, another may use.
    const recorded = new Set([...file.matchAll(/record: (\S+)/g)].map((match) => match[1]));
    const used = [...file.matchAll(/\bworker_vllm:[\w:]+/g)].map(([name]) => name);
    expect(used.filter((name) => !recorded.has(name))).toEqual([]);
  },
);
