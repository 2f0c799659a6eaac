import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { WorkerView } from '../../src/gateway/fleet-views.ts';
import { PING_TEXT } from '../../src/protocol/index.ts';
import { type RunningWorkerd, startWorkerd } from '../../src/workerd/process.ts';
import { FaultyProxy } from '../support/faulty-proxy.ts';
import { until } from '../support/poll.ts';
import { closeRawWorkers, RawWorker } from '../support/raw-worker.ts';

/** A half-open control socket in a real workerd: pings are answered, and counted, without the queue's code. */
let stateDir: string;
let road: RunningWorkerd;
let network: FaultyProxy;
let pinging: NodeJS.Timeout;

beforeEach(async () => {
  stateDir = await mkdtemp(join(tmpdir(), 'silence-'));
  const bindings = { PING_SECONDS: '1', RECONNECT_GRACE_SECONDS: '1', LEASE_SECONDS: '300' };
  road = await startWorkerd({ host: '127.0.0.1', port: 0, stateDir, bindings });
  network = await new FaultyProxy(road.port, () => 0).listen();
});
afterEach(async () => {
  clearInterval(pinging);
  closeRawWorkers();
  await network.close();
  await road.stop();
  await rm(stateDir, { recursive: true, force: true });
});

async function stateOf(id: string): Promise<WorkerView['state'] | undefined> {
  const { workers } = (await (await fetch(`${road.url}/api/workers`)).json()) as { workers: WorkerView[] };
  return workers.find(({ worker_id }) => worker_id === id)?.state;
}

describe('a half-open control socket', () => {
  it('is found by missed pings, long before the lease ends, and its job runs elsewhere', async () => {
    const lost = await (await new RawWorker(`http://127.0.0.1:${network.port}`).connect()).register('lost');
    pinging = setInterval(() => lost.send(PING_TEXT), 500);
    const body = JSON.stringify({ id: 'j', job_type: 'chat_completion', config_id: 'cfg', payload: {} });
    await fetch(`${road.url}/api/jobs`, { method: 'POST', body });
    await lost.job();
    // Several silence limits pass with nothing but pings.
    await until(
      () => lost.frames.filter(({ type }) => type === 'pong').length >= 8,
      'many pings are answered',
    );
    expect(await stateOf('lost')).toBe('ready');

    network.halfOpen('neither');
    await until(async () => (await stateOf('lost')) === 'disconnected', 'the lost worker is found');
    expect(lost.closed).toBeNull();
    const taker = await (await new RawWorker(road.url).connect()).register('taker');
    clearInterval(pinging);
    pinging = setInterval(() => taker.send(PING_TEXT), 500);
    expect((await taker.job()).job_id).toBe('j');
  });
});
