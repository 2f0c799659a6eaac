import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { WorkerView } from '../../src/gateway/fleet-views.ts';
import { PING_TEXT } from '../../src/protocol/index.ts';
import { FaultyProxy } from '../support/faulty-proxy.ts';
import { until } from '../support/poll.ts';
import { RawWorker } from '../support/raw-worker.ts';
import { startTestQueue } from '../support/test-queue.ts';

/** A half-open control socket in a real queue: pings are answered, and counted, without the queue's code. */
const road = startTestQueue({ PING_SECONDS: '2', RECONNECT_GRACE_SECONDS: '1', LEASE_SECONDS: '300' });
let network: FaultyProxy;
let pinging: NodeJS.Timeout;

beforeAll(async () => {
  network = await new FaultyProxy(Number(new URL(road.url).port), () => 0).listen();
});
afterAll(async () => {
  clearInterval(pinging);
  await network.close();
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
      () => lost.frames.filter(({ type }) => type === 'pong').length >= 20,
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
