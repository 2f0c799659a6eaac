import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { WorkerView } from '../../src/gateway/fleet-views.ts';
import { PING_TEXT } from '../../src/protocol/index.ts';
import { buildClockShim, type ClockShim, noClockShim } from '../support/clock-shim.ts';
import { FaultyProxy } from '../support/faulty-proxy.ts';
import { until } from '../support/poll.ts';
import { type QueueProcess, startQueueProcess } from '../support/queue-process.ts';
import { closeRawWorkers, RawWorker } from '../support/raw-worker.ts';

/**
 * A half-open control socket in a real queue: pings are answered, and counted, without the queue's code. The test moves
 * the queue's clock, and the limit is long, so the worker is not lost where this process stands still.
 */
const PING_SECONDS = '60';
/** The queue waits for two and a third pings, ms. */
const LIMIT_MS = 140_000;
/** The queue looks once a second whether its clock was set, and does then what is due: the time of both, ms. */
const NOTICED_MS = 1500;
const WHY = noClockShim === null ? '' : ` (skipped: ${noClockShim})`;
let stateDir: string;
let clock: ClockShim;
let road: QueueProcess;
let network: FaultyProxy;
let aheadMs = 0;

function advance(ms: number): void {
  aheadMs += ms;
  clock.setOffset(aheadMs);
}

async function stateOf(id: string): Promise<WorkerView['state'] | undefined> {
  const { workers } = (await (await fetch(`${road.url}/api/workers`)).json()) as { workers: WorkerView[] };
  return workers.find(({ worker_id }) => worker_id === id)?.state;
}

describe.skipIf(noClockShim !== null)(`a half-open control socket${WHY}`, () => {
  beforeAll(async () => {
    stateDir = await mkdtemp(join(tmpdir(), 'silence-'));
    clock = buildClockShim();
    const bindings = { PING_SECONDS, RECONNECT_GRACE_SECONDS: '1', LEASE_SECONDS: '3600' };
    road = await startQueueProcess({ host: '127.0.0.1', port: 0, stateDir, bindings, env: clock.env });
    network = await new FaultyProxy(road.port, () => 0).listen();
  });
  afterAll(async () => {
    closeRawWorkers();
    await network.close();
    road.kill();
    await road.exited;
    clock.remove();
    await rm(stateDir, { recursive: true, force: true });
  });

  it('is found by missed pings, long before the lease ends, and its job runs elsewhere', async () => {
    const lost = await (await new RawWorker(`http://127.0.0.1:${network.port}`).connect()).register('lost');
    const body = JSON.stringify({ id: 'j', job_type: 'chat_completion', config_id: 'cfg', payload: {} });
    await fetch(`${road.url}/api/jobs`, { method: 'POST', body });
    await lost.job();
    // The silence limit passes with nothing but pings, and the queue judges the worker by them.
    for (let n = 0; n < 3; n++) {
      advance(40_000);
      lost.send(PING_TEXT);
      await lost.next('pong', n);
    }
    advance(LIMIT_MS - aheadMs);
    await sleep(NOTICED_MS);
    expect(await stateOf('lost')).toBe('ready');

    network.halfOpen('neither');
    advance(110_000);
    // A check that comes more than five seconds late counts as a standstill of the queue, so the clock moves on slowly.
    await until(
      async () => {
        advance(500);
        return (await stateOf('lost')) === 'disconnected';
      },
      'the lost worker is found',
      { everyMs: 250, timeoutMs: 120_000 },
    );
    expect(lost.closed).toBeNull();
    const taker = await (await new RawWorker(road.url).connect()).register('taker');
    expect((await taker.job()).job_id).toBe('j');
  });
});
