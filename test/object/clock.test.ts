import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { buildClockShim, type ClockShim, noClockShim } from '../support/clock-shim.ts';
import { until } from '../support/poll.ts';
import { type QueueProcess, startQueueProcess } from '../support/queue-process.ts';
import { closeRawWorkers, RawWorker } from '../support/raw-worker.ts';

/** The wall clock of a real process is set while it runs. */
const HOUR_MS = 3_600_000;
const WHY = noClockShim === null ? '' : ` (skipped: ${noClockShim})`;
let stateDir: string;
let clock: ClockShim;
let road: QueueProcess;

async function api(path: string, body?: object): Promise<Record<string, unknown>> {
  const response = await fetch(road.url + path, body ? { method: 'POST', body: JSON.stringify(body) } : {});
  return (await response.json()) as Record<string, unknown>;
}

const submit = (id: string, more: object = {}) =>
  api('/api/jobs', { id, job_type: 'chat_completion', config_id: 'cfg', payload: { messages: [] }, ...more });

/** The queue starts again to take the new clock, and its workers dial again. */
async function isGivenTo(workerId: string, jobId: string, connected: RawWorker | null = null): Promise<void> {
  let worker = connected;
  await until(async () => {
    if (worker?.closed !== null) {
      worker = await (await new RawWorker(road.url).connect()).register(workerId, { capacity: 2 });
    }
    return worker.frames.some(({ type, job_id }) => type === 'job' && job_id === jobId);
  }, `${jobId} is given to ${workerId}`);
}

describe.skipIf(noClockShim !== null)(`the clock of the queue${WHY}`, () => {
  beforeEach(async () => {
    stateDir = await mkdtemp(join(tmpdir(), 'clock-'));
    clock = buildClockShim();
    const bindings = { LEASE_SECONDS: '20', RECONNECT_GRACE_SECONDS: '2' };
    road = await startQueueProcess({ host: '127.0.0.1', port: 0, stateDir, bindings, env: clock.env });
  });
  afterEach(async () => {
    closeRawWorkers();
    road.kill();
    await road.exited;
    clock.remove();
    await rm(stateDir, { recursive: true, force: true });
  });

  it('may be set back by an hour: what is submitted is stored and dispatched all the same', async () => {
    const worker = await (await new RawWorker(road.url).connect()).register('w', { capacity: 2 });
    await submit('before');
    await worker.job();
    clock.setOffset(-HOUR_MS);
    expect(await submit('after')).toMatchObject({ id: 'after' });
    await isGivenTo('w', 'after', worker);
  });

  it('may be set back by an hour: leases, waits and deadlines end as if it had not been', async () => {
    const lost = await (await new RawWorker(road.url).connect()).register('lost');
    await submit('held', { max_attempts: 2 });
    await lost.job();
    // Among events that come fast the queue asks the machine for its time but now and then.
    const load = { type: 'load', running: 1, waiting: 0, kv_cache_usage: 0, slots_free: 0 };
    lost.send([load, load, load]);
    await submit('late', { config_id: 'nobody', deadline_seconds: 15 });
    clock.setOffset(-HOUR_MS);
    lost.vanish();
    await isGivenTo('taker', 'held');
    expect(await api('/api/jobs/held?wait=1')).toMatchObject({ state: 'leased' });
    await until(async () => (await api('/api/jobs/late')).state === 'expired', 'the deadline passes');
  });

  it('may be set forward by a day: what is due from then on is done in time', async () => {
    // For what the queue is told by now its alarm is set for half a day later.
    await (await new RawWorker(road.url).connect()).register('idle', { config_id: 'other' });
    clock.setOffset(24 * HOUR_MS);
    const lost = await (await new RawWorker(road.url).connect()).register('lost');
    await submit('held');
    await lost.job();
    lost.vanish();
    await isGivenTo('taker', 'held');
  });

  it('may be set forward by an hour: a worker that renews keeps its job', async () => {
    const worker = await (await new RawWorker(road.url).connect()).register('w');
    await submit('kept', { max_attempts: 1 });
    const job = await worker.job();
    clock.setOffset(HOUR_MS);
    const jobs = [{ job_id: job.job_id, fence_token: job.fence_token }];
    // A whole lease passes by the queue's clock, and much less by that of this process, which may stand still.
    for (let n = 0; n < 5; n++) {
      worker.send({ type: 'renew', jobs });
      expect(await worker.next('renewed', n)).toMatchObject({ lost: [] });
      clock.setOffset(HOUR_MS + 3000 * (n + 1));
      await sleep(1200);
    }
    worker.result(job);
    expect(await api('/api/jobs/kept?wait=10')).toMatchObject({
      state: 'succeeded',
      attempts: 1,
      attempt_errors: [],
    });
  });
});
