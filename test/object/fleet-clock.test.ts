import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { LauncherAnswer, Order } from '../../src/scheduler/rpc.ts';
import { buildClockShim, type ClockShim, noClockShim } from '../support/clock-shim.ts';
import { until } from '../support/poll.ts';
import { type QueueProcess, startQueueProcess } from '../support/queue-process.ts';

/** The wall clock of a real process is set back while its scheduler runs; the test plays the launcher. */
const HOUR_MS = 3_600_000;
const WHY = noClockShim === null ? '' : ` (skipped: ${noClockShim})`;
let stateDir: string;
let clock: ClockShim;
let road: QueueProcess;

async function post(path: string, body: object): Promise<Record<string, unknown>> {
  const response = await fetch(road.url + path, { method: 'POST', body: JSON.stringify(body) });
  expect(response.status).toBeLessThan(300);
  return (await response.json()) as Record<string, unknown>;
}

/** One sync, with a complete list of nothing. */
async function sync(): Promise<Order[]> {
  const lists = [{ provider: 'cloud', age_ms: 0, machines: [], error: null }];
  const report = { drivers: ['runpod'], lists, results: [], prices: [] };
  return ((await post('/api/launchers/l-1/sync', report)) as unknown as LauncherAnswer).orders;
}

async function launchIsOrdered(): Promise<void> {
  await until(async () => (await sync()).some(({ kind }) => kind === 'launch'), 'a launch is ordered');
}

describe.skipIf(noClockShim !== null)(`the clock of the scheduler${WHY}`, () => {
  beforeEach(async () => {
    stateDir = await mkdtemp(join(tmpdir(), 'fleet-clock-'));
    clock = buildClockShim();
    road = await startQueueProcess({ host: '127.0.0.1', port: 0, stateDir, bindings: {}, env: clock.env });
    const chat = { model: 'tiny', slots: 1, max: 1, machines: [{ provider: 'cloud', price_per_hour: 2 }] };
    await post('/api/fleet/spec', {
      spec: { providers: { cloud: { driver: 'runpod' } }, pools: { chat } },
    });
    await sync();
  });
  afterEach(async () => {
    road.kill();
    await road.exited;
    clock.remove();
    await rm(stateDir, { recursive: true, force: true });
  });

  const submit = () =>
    post('/api/jobs', { job_type: 'chat_completion', config_id: 'chat', payload: { messages: [] } });

  it('runs on: a worker is launched for what waits', async () => {
    await submit();
    await launchIsOrdered();
  });

  it('may be set back by an hour: a worker is launched for what waits all the same', async () => {
    clock.setOffset(-HOUR_MS);
    await submit();
    await launchIsOrdered();
  });
});
