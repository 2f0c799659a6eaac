import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { EXIT } from '../../src/process/index.ts';
import { until } from '../support/poll.ts';
import {
  chatJob,
  processesWith,
  type QueueProcess,
  readyWorker,
  settled,
  startQueue,
  startWorker,
  stateFolder,
  submit,
  tearDown,
  type WorkerProcess,
} from '../support/road.ts';

/** Weights that `vllm preload` holds beside the engine, so that a start in place does not read them again. */
const PROGRAM = fileURLToPath(new URL('../support/stand-ins/vllm.ts', import.meta.url));
let queue: QueueProcess;

beforeAll(async () => {
  queue = await startQueue();
});
afterAll(tearDown);

function environment(file: string, more: NodeJS.ProcessEnv = {}): NodeJS.ProcessEnv {
  return {
    ENGINE: 'vllm',
    VLLM_SERVE_COMMAND: `${process.execPath} ${PROGRAM}`,
    ENGINE_KEEP_WEIGHTS: '1',
    ENGINE_RESTARTS: '2',
    VLLM_LOADED_FROM: file,
    XDG_CACHE_HOME: stateFolder(),
    GPU_CHECK: 'off',
    ...more,
  };
}

const linesOf = (file: string) => readFileSync(file, 'utf8').trim().split('\n');

async function killEngine({ process: worker, enginePort }: WorkerProcess): Promise<void> {
  const [engine] = await processesWith(`--port\0${enginePort}\0`);
  process.kill(engine!, 'SIGKILL');
  await worker.waitForLine(/starting the engine again in 1 s \(1 of 2\)/);
}

it('are loaded once, mapped at each start of the engine, and gone with the worker', async () => {
  const file = join(stateFolder(), 'loads');
  const env = environment(file, { MAX_MODEL_LEN: '4096' });
  const worker = await readyWorker(queue.url, 'kept', { env });
  const [preload, ...starts] = linesOf(file);
  expect(preload).toMatch(/^preload --model tiny --max-model-len 4096 --weight-cache-socket-dir (\S+)$/);
  expect(starts).toEqual(['mapped']);
  const folder = preload!.split(' ').at(-1)!;
  expect(existsSync(folder)).toBe(true);
  await killEngine(worker);
  const { id } = await submit(queue.url, chatJob(5));
  expect(await settled(queue.url, id)).toMatchObject({ state: 'succeeded', worker_id: 'kept' });
  expect(linesOf(file).slice(1)).toEqual(['mapped', 'mapped']);
  expect(await processesWith(folder)).not.toEqual([]);
  worker.process.kill('SIGTERM');
  expect((await worker.process.exited).code).toBe(EXIT.ok);
  await until(async () => (await processesWith(folder)).length === 0, 'nothing holds the weights');
  expect(existsSync(folder)).toBe(false);
});

it('that cannot be kept on this machine are loaded by the engine, and the log says why', async () => {
  const file = join(stateFolder(), 'loads');
  const worker = await readyWorker(queue.url, 'cpu', { env: environment(file, { VLLM_PRELOAD_FAILS: '1' }) });
  await worker.process.waitForLine(/vllm preload ended: .*platform 'cpu' does not support/);
  expect(linesOf(file)).toEqual(['disk']);
  await worker.process.stop();
});

it('whose keeper died are loaded by the engine at its next start', async () => {
  const file = join(stateFolder(), 'loads');
  const worker = await readyWorker(queue.url, 'lost', { env: environment(file) });
  const folder = linesOf(file)[0]!.split(' ').at(-1)!;
  const [keeper] = await processesWith(`--weight-cache-socket-dir\0${folder}`);
  process.kill(keeper!, 'SIGKILL');
  await worker.process.waitForLine(/vllm preload ended/);
  await killEngine(worker);
  await until(async () => linesOf(file).length === 3, 'it is started again');
  expect(linesOf(file).slice(1)).toEqual(['mapped', 'disk']);
  await worker.process.stop();
});

it('are asked for only of an engine that can, and not where engines share a GPU', async () => {
  const file = join(stateFolder(), 'loads');
  const env = environment(file, { ENGINE: 'simulator', VLLM_SERVE_COMMAND: undefined });
  const { process: other } = await startWorker(queue.url, 'other', { env });
  expect((await other.exited).code).toBe(EXIT.configuration);
  expect(other.output()).toContain('ENGINE_KEEP_WEIGHTS="1": the simulator cannot keep its weights');
  const shared = environment(file, { ENGINE_TURNS: join(stateFolder(), 'turns') });
  const { process: sharing } = await startWorker(queue.url, 'sharing', { env: shared });
  expect((await sharing.exited).code).toBe(EXIT.configuration);
  expect(sharing.output()).toContain('ENGINE_KEEP_WEIGHTS="1": an engine that shares its GPU');
});
