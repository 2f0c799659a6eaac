import { rmSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { EXIT } from '../../src/process/index.ts';
import { gpuLine, printing, standInNvidiaSmi } from '../support/nvidia-smi.ts';
import { until } from '../support/poll.ts';
import { freePort } from '../support/ports.ts';
import type { Child } from '../support/processes.ts';
import { cli, type QueueProcess, startQueue, tearDown, workers } from '../support/road.ts';

/** Whether an engine is started on the GPUs that a machine has; nvidia-smi and the engine are stand-ins. */
const ENGINE = fileURLToPath(new URL('../support/stand-ins/engine.ts', import.meta.url));
const STARTED = /engine \d+ and its child/;

let queue: QueueProcess;
const children: Child[] = [];
const folders: string[] = [];
beforeAll(async () => {
  queue = await startQueue();
});
afterEach(async () => {
  await Promise.all(children.splice(0).map((child) => child.stop()));
});
afterAll(async () => {
  await tearDown();
  for (const folder of folders) rmSync(folder, { recursive: true });
});

/** @param nvidiaSmi lines of sh; null: there is none on the PATH */
async function supervise(id: string, nvidiaSmi: string | null, env: NodeJS.ProcessEnv = {}): Promise<Child> {
  if (nvidiaSmi !== null) folders.push(standInNvidiaSmi(nvidiaSmi));
  const child = cli(['supervise'], {
    // The engine and its child are started by full path or by sh.
    PATH: nvidiaSmi === null ? '/nowhere' : `${folders.at(-1)}:/usr/bin:/bin`,
    VLLM_MODEL: 'stand-in',
    VLLM_SERVE_COMMAND: `${process.execPath} ${ENGINE}`,
    VLLM_PORT: String(await freePort()),
    CASOLA_WS_URL: queue.url.replace(/^http/, 'ws'),
    CASOLA_API_URL: queue.url,
    CASOLA_CONFIG_ID: 'cfg',
    CASOLA_INSTANCE_ID: id,
    ...env,
  });
  children.push(child);
  return child;
}

const BAD = printing(gpuLine({ used: '40112', ecc: '3' }));

it('reports a machine whose GPUs are unfit as fatal, and never starts the engine', async () => {
  const child = await supervise('unfit', BAD, { CASOLA_EXPECTED_GPU_NAME: 'B200', ENGINE_RESTARTS: '3' });
  expect((await child.exited).code, child.output()).toBe(EXIT.badHost);
  expect(child.output()).not.toMatch(STARTED);
  const reported = await until(
    async () =>
      (await workers(queue.url)).find(({ worker_id, status }) => worker_id === 'unfit' && status === 'fatal'),
    'the last report of the worker is there',
  );
  for (const text of ['40112 MiB already in use', 'ECC errors: 3', 'GPU_NAME="B200"', 'GPU_CHECK=warn']) {
    expect(reported.error_message).toContain(text);
    expect(child.output()).toContain(text.replaceAll('"', '\\"'));
  }
});

it('takes an nvidia-smi that fails for an unfit machine', async () => {
  const child = await supervise('broken', 'echo "Unable to determine the device handle"; exit 15');
  expect((await child.exited).code, child.output()).toBe(EXIT.badHost);
  expect(child.output()).toContain('nvidia-smi failed (exit code 15): Unable to determine the device handle');
});

it('starts the engine on fit GPUs', async () => {
  const child = await supervise('fit', printing(gpuLine()));
  await child.waitForLine(STARTED);
  expect(child.output()).not.toMatch(/GPUs are not|this machine's GPUs/);
});

it('starts the engine all the same where it is only to warn', async () => {
  const child = await supervise('warned', BAD, { GPU_CHECK: 'warn' });
  await child.waitForLine(/40112 MiB already in use.*Starting vllm all the same/);
  await child.waitForLine(STARTED);
});

it('does not ask where the check is off', async () => {
  const child = await supervise('off', 'exit 15', { GPU_CHECK: 'off' });
  await child.waitForLine(STARTED);
  expect(child.output()).not.toContain('nvidia-smi');
});

it('says in one line that there is no nvidia-smi, and starts the engine', async () => {
  const child = await supervise('without', null);
  await child.waitForLine(/the GPUs are not checked: there is no nvidia-smi on the PATH/);
  await child.waitForLine(/Initializing a V1 LLM engine/);
});

it('ends in order on a signal while nvidia-smi hangs', async () => {
  // Counting the GPUs is another call, left out by telling which there are.
  const child = await supervise('hanging', 'sleep 600', { CUDA_VISIBLE_DEVICES: '0' });
  await child.waitForLine(/worker starting/);
  child.kill('SIGTERM');
  expect((await child.exited).code, child.output()).toBe(EXIT.ok);
  expect(child.output()).not.toMatch(STARTED);
});
