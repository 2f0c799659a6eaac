import { expect, test } from 'vitest';
import type { EngineGauges } from '../../../src/engine/client/types.ts';
import type { GpuReading } from '../../../src/protocol/index.ts';
import { MetricShipper, type MetricSnapshot } from '../../../src/worker/telemetry/metric-shipper.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

function shipping() {
  const clock = new VirtualClock();
  const posts: MetricSnapshot[][] = [];
  const logged: string[] = [];
  const log = (_fields: object, message: string) => {
    logged.push(message);
  };
  const now = {
    gauges: null as EngineGauges | null,
    gpus: [] as GpuReading[],
    jobId: undefined as string | undefined,
    refuses: false,
  };
  const shipper = new MetricShipper({
    clock,
    log: { debug: log, info: log, warn: log, error: log },
    post: async (snapshots) => {
      posts.push(snapshots);
      if (now.refuses) throw new Error('HTTP 500');
    },
    gauges: async () => now.gauges,
    gpus: async () => now.gpus,
    currentJobId: () => now.jobId,
  });
  return { clock, posts, logged, now, shipper };
}

test('a snapshot goes at once and every 30 s, with all that is known of worker, engine and first GPU', async () => {
  const { clock, posts, now, shipper } = shipping();
  shipper.start();
  await clock.advance(29_999);
  expect(posts).toEqual([[{ timestamp: 1_767_225_600, worker_uptime_s: 0 }]]);
  now.gauges = { running: 2, waiting: 1, kvCacheUsage: 0.5 };
  now.gpus = [
    { name: 'H100', memory_used_bytes: 100 * 2 ** 20, utilization: 0.37, temperature_celsius: 61 },
    { memory_used_bytes: 5 * 2 ** 20 },
  ];
  now.jobId = 'j1';
  await clock.advance(1);
  expect(posts[1]).toEqual([
    {
      timestamp: 1_767_225_630,
      worker_uptime_s: 30,
      gpu_memory_used_mb: 100,
      gpu_utilization_pct: 37,
      gpu_temperature_c: 61,
      vllm_running_requests: 2,
      vllm_waiting_requests: 1,
      current_job_id: 'j1',
    },
  ]);
  shipper.stop();
  await clock.advance(120_000);
  expect(posts).toHaveLength(2);
});

test('refused snapshots go again with the next, the oldest of them are dropped, and both turns are told once', async () => {
  const { clock, posts, logged, now, shipper } = shipping();
  now.refuses = true;
  shipper.start();
  await clock.advance(70 * 30_000);
  now.refuses = false;
  await clock.advance(2 * 30_000);
  expect(logged).toEqual([
    'metrics do not arrive at CASOLA_METRICS_URL; jobs are not affected',
    'metrics arrive at CASOLA_METRICS_URL again',
  ]);
  const [recovery, after] = posts.slice(-2);
  expect(recovery).toHaveLength(60);
  const uptimes = recovery?.map((snapshot) => snapshot.worker_uptime_s / 30);
  expect(uptimes).toEqual(Array.from({ length: 60 }, (_, n) => n + 12));
  expect(after).toHaveLength(1);
});
