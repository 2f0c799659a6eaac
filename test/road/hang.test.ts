import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { EXIT } from '../../src/process/index.ts';
import type { FleetView } from '../../src/protocol/index.ts';
import { until } from '../support/poll.ts';
import {
  chatJob,
  engineRunning,
  job,
  processesWith,
  type QueueProcess,
  readyWorker,
  settled,
  startQueue,
  submit,
  tearDown,
  untilReady,
  type WorkerProcess,
  workers,
} from '../support/road.ts';

/** An engine that hangs or dies under its jobs, found by the worker over the whole road. */
const SLOW = '--inter-token-latency-ms 20';
let queue: QueueProcess;

beforeAll(async () => {
  queue = await startQueue();
});
afterAll(tearDown);

/** @param pool whose jobs it gets: its own, since the tests run beside each other */
async function worker(
  id: string,
  env: NodeJS.ProcessEnv,
  engineArgs = SLOW,
  pool = id,
): Promise<WorkerProcess> {
  return await readyWorker(queue.url, id, { engineArgs, env: { CASOLA_CONFIG_ID: pool, ...env } });
}

async function setFault(engineUrl: string, fault: object): Promise<void> {
  const headers = { 'content-type': 'application/json' };
  await fetch(`${engineUrl}/simulator/faults`, { method: 'POST', body: JSON.stringify(fault), headers });
}

async function enginePid({ enginePort }: WorkerProcess): Promise<number> {
  const [pid] = await processesWith(`--port\0${enginePort}`);
  return pid as number;
}

describe.concurrent('an engine that hangs behind a good health check', () => {
  it('ends the container, and the job that ran on it is charged and runs elsewhere', async () => {
    const hanging = await worker('hanging', { ENGINE_HANG_SECONDS: '2' });
    const { id } = await submit(queue.url, chatJob(500, { config_id: 'hanging' }));
    await until(async () => (await engineRunning(hanging.engineUrl)) === 1, 'it runs');
    await setFault(hanging.engineUrl, { hang: true });
    expect((await fetch(`${hanging.engineUrl}/health`)).status).toBe(200);
    expect((await hanging.process.exited).code).toBe(EXIT.engineDied);
    expect(hanging.process.output()).toContain('the engine hangs: it has work and made nothing');
    expect(await processesWith(String(hanging.enginePort))).toEqual([]);
    const gone = await until(
      async () =>
        (await workers(queue.url)).find((view) => view.worker_id === 'hanging' && view.status === 'error'),
      'the last report of the worker is there',
    );
    expect(gone.error_message).toContain('hangs');
    await worker('other', {}, '', 'hanging');
    expect(await settled(queue.url, id)).toMatchObject({
      state: 'succeeded',
      worker_id: 'other',
      attempts: 2,
    });
  });

  it('is started again in place where restarts are allowed, and the same worker goes on', async () => {
    const only = await worker('only', { ENGINE_HANG_SECONDS: '2', ENGINE_RESTARTS: '1' });
    const { id } = await submit(queue.url, chatJob(500, { config_id: 'only' }));
    await until(async () => (await engineRunning(only.engineUrl)) === 1, 'it runs');
    await setFault(only.engineUrl, { hang: true });
    await only.process.waitForLine(/starting the engine again in 1 s \(1 of 1\)/);
    expect(await settled(queue.url, id)).toMatchObject({
      state: 'succeeded',
      worker_id: 'only',
      attempts: 2,
    });
    expect(only.process.output().match(/"worker starting"/g)).toHaveLength(1);
  });

  it('is found while idle too where canaries are asked for', async () => {
    const idle = await worker('idle', { ENGINE_HANG_SECONDS: '2', ENGINE_CANARY_SECONDS: '1' });
    await setFault(idle.engineUrl, { hang: true });
    expect((await idle.process.exited).code).toBe(EXIT.engineDied);
  });

  it('is found when its process is stopped whole and answers nothing', async () => {
    const stopped = await worker('stopped', { ENGINE_HANG_SECONDS: '1' });
    process.kill(await enginePid(stopped), 'SIGSTOP');
    expect((await stopped.process.exited).code).toBe(EXIT.engineDied);
    expect(await processesWith(String(stopped.enginePort))).toEqual([]);
  });
});

describe.concurrent('an engine that is slow', () => {
  it('is left alone while anything moves', async () => {
    const slow = await worker(
      'slow',
      { ENGINE_HANG_SECONDS: '3' },
      '--inter-token-latency-ms 1500 --time-to-first-token-ms 1500',
    );
    const { id } = await submit(queue.url, chatJob(6, { config_id: 'slow' }));
    expect(await settled(queue.url, id)).toMatchObject({ state: 'succeeded', attempts: 1 });
    expect(slow.process.output()).not.toContain('hangs');
  });
});

describe.concurrent('an engine that dies', () => {
  it('is started again as often as allowed, each time after a pause; then the container ends', async () => {
    const dying = await worker('dying', { ENGINE_RESTARTS: '1' });
    const first = await enginePid(dying);
    process.kill(first, 'SIGKILL');
    await dying.process.waitForLine(/starting the engine again/);
    const second = await until(async () => {
      const pid = await enginePid(dying);
      return pid === first ? null : pid;
    }, 'the engine runs again');
    await untilReady(queue.url, 'dying');
    const { id } = await submit(queue.url, chatJob(5, { config_id: 'dying' }));
    expect(await settled(queue.url, id)).toMatchObject({ state: 'succeeded', worker_id: 'dying' });
    process.kill(second, 'SIGKILL');
    expect((await dying.process.exited).code).toBe(EXIT.engineDied);
    expect((await job(queue.url, id)).state).toBe('succeeded');
  });

  it('is not started again for a bad configuration, and the exit code says so', async () => {
    const bad = await readyWorker(queue.url, 'bad', {
      engineArgs: '--no-such-flag',
      env: { ENGINE_RESTARTS: '3' },
    }).catch((error: Error) => error.message);
    expect(bad).toContain(`ended with ${EXIT.configuration}`);
    expect(bad).toContain('does not know the argument --no-such-flag');
    expect(bad).not.toContain('starting the engine again');
  });
});

describe.concurrent('the start of an engine', () => {
  it('is told phase by phase, with how far it is, in the log and in the heartbeat', async () => {
    const phases = new Set<string | null>();
    const shares = new Set<number>();
    // Long enough for the worker's own process to be there before the engine is done, on a busy machine too.
    const starting = worker('starting', {}, '--startup-seconds 12');
    let ready = false;
    void starting.then(() => {
      ready = true;
    });
    await until(async () => {
      const fleet = (await (await fetch(`${queue.url}/api/fleet`)).json()) as FleetView;
      const row = fleet.workers.find(({ worker_id }) => worker_id === 'starting');
      phases.add(row?.phase ?? null);
      if (row?.phase === 'loading' && row.progress !== null) shares.add(row.progress);
      return ready;
    }, 'it is ready');
    expect([...phases]).toContain('loading');
    expect([...shares].filter((share) => share > 0 && share < 1)).not.toEqual([]);
    const { process: container } = await starting;
    // The worker may be a moment ahead of the supervisor, who asks the engine for itself.
    await container.waitForLine(/engine: ready/);
    expect(container.output()).toMatch(/engine: starting[\s\S]*engine: loading[\s\S]*engine: ready/);
  });
});
