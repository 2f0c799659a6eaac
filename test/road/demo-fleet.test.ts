import { expect, test } from 'vitest';
import { PARTS } from '../../scripts/demo/cast.ts';
import { startDemoQueue } from '../../scripts/demo/queue.ts';
import { startDemoFleet } from '../../scripts/demo-fleet.ts';
import type { FleetHistory, FleetView, RequestRecord } from '../../src/protocol/index.ts';
import { until } from '../support/poll.ts';
import { freePort } from '../support/ports.ts';

test('the fleet to look at has 20 workers of four pools, one of each kind that needs somebody', async () => {
  const queue = await startDemoQueue(String(await freePort()));
  const { url } = queue;
  const fleet = startDemoFleet({ url, token: undefined });
  const statesNow = async () => {
    const { workers } = (await (await fetch(`${url}/api/fleet`)).json()) as FleetView;
    return new Map(workers.map(({ worker_id, state }) => [worker_id, state]));
  };
  const expected = {
    'vast-24520188': 'lost',
    'vast-24520193': 'draining',
    'runpod-m81s4kx7u0q3df': 'loading',
    'gpu-node-c-1': 'error',
    'gpu-node-b-2': 'paused',
  };
  const states = await until(
    async () => {
      const states = await statesNow();
      return Object.entries(expected).every(([id, state]) => states.get(id) === state) ? states : null;
    },
    'each is in its state',
    { timeoutMs: 120_000, everyMs: 500 },
  );
  // Beside these there are as many as the demo's scheduler has launched by now.
  expect(PARTS.length).toBe(20);
  expect(PARTS.filter(({ workerId }) => !states.has(workerId))).toEqual([]);
  expect([...states.values()].filter((state) => state === 'running').length).toBeGreaterThan(8);
  const { workers } = (await (await fetch(`${url}/api/fleet`)).json()) as FleetView;
  const worker = workers.find(({ worker_id }) => worker_id === 'vast-24518807')!;
  expect(worker.tokens_history.filter((value) => value !== null).length).toBeGreaterThan(55);
  const day = await fetch(`${url}/api/fleet/history?config_id=llama-8b&range=24h`);
  const { series } = (await day.json()) as FleetHistory;
  expect(series.succeeded!.filter((value) => value !== null).length).toBeGreaterThan(1400);
  // Its engines answer: some refuse a prompt, and none breaks over what it is asked.
  const ended = async (outcome: string) => {
    const answer = await fetch(`${url}/api/requests?outcome=${outcome}&limit=500`);
    return ((await answer.json()) as { requests: RequestRecord[] }).requests;
  };
  await until(async () => (await ended('succeeded')).length > 0, 'requests are answered');
  const broken = (await ended('failed')).filter(({ error_code }) => error_code === 'worker_error');
  expect(broken.map(({ error }) => error)).toEqual([]);
  await fleet.stop();
  await queue.stop();
}, 180_000);
