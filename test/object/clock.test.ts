import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type RunningWorkerd, startWorkerd } from '../../src/workerd/process.ts';
import { buildClockShim, type ClockShim, noClockShim } from '../support/clock-shim.ts';
import { closeRawWorkers, RawWorker } from '../support/raw-worker.ts';

/** The wall clock of a real workerd is set while it runs. Its timers stand still for as long as it was set back. */
const HOUR_MS = 3_600_000;
const WHY = noClockShim === null ? '' : ` (skipped: ${noClockShim})`;
let stateDir: string;
let clock: ClockShim;
let road: RunningWorkerd;

async function api(path: string, body?: object): Promise<Record<string, unknown>> {
  const response = await fetch(road.url + path, body ? { method: 'POST', body: JSON.stringify(body) } : {});
  return (await response.json()) as Record<string, unknown>;
}

const submit = (id: string, more: object = {}) =>
  api('/api/jobs', { id, job_type: 'chat_completion', config_id: 'cfg', payload: { messages: [] }, ...more });

describe.skipIf(noClockShim !== null)(`the clock of the queue${WHY}`, () => {
  beforeEach(async () => {
    stateDir = await mkdtemp(join(tmpdir(), 'clock-'));
    clock = buildClockShim();
    const bindings = { ...clock.env, LEASE_SECONDS: '2', RECONNECT_GRACE_SECONDS: '2' };
    road = await startWorkerd({ host: '127.0.0.1', port: 0, stateDir, bindings });
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
    expect(await worker.job(1)).toMatchObject({ job_id: 'after' });
  });
});
