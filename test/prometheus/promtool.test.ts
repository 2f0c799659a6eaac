import { spawnSync } from 'node:child_process';
import { expect, it } from 'vitest';
import { ensurePromtool } from '../../scripts/promtool/setup.ts';
import { startMetricsRoad } from '../support/metrics-road.ts';

/** What it says of this; empty: nothing. */
async function promtool(args: string[], input?: string): Promise<string> {
  const { status, stdout, stderr } = spawnSync(await ensurePromtool(), args, { encoding: 'utf8', input });
  return status === 0 ? '' : `exit ${status}: ${stdout}${stderr}`;
}

it('finds no fault with GET /metrics of a queue that has run jobs', async () => {
  const road = await startMetricsRoad();
  try {
    await road.runJobs('checked');
    const text = await road.metrics('checked');
    expect(text).toContain('worker_vllm_jobs_settled_total');
    expect(await promtool(['check', 'metrics'], text)).toBe('');
  } finally {
    await road.stop();
  }
});

it('reads every alert', async () => {
  expect(await promtool(['check', 'rules', 'deploy/prometheus/rules.yaml'])).toBe('');
});

it.each(['rules.test.yaml', 'rules.days.test.yaml'])(
  'sees every alert fire when it is to, and not otherwise: %s',
  async (file) => {
    expect(await promtool(['test', 'rules', `deploy/prometheus/${file}`])).toBe('');
  },
);
