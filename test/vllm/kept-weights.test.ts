import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { afterAll, expect, it } from 'vitest';
import { ensureVllm, TINY_MODEL_ARGS } from '../../scripts/vllm/setup.ts';
import { until } from '../support/poll.ts';
import { processesWith, startQueue, startWorker, tearDown } from '../support/road.ts';
import { START_LIMIT, START_SECONDS } from './worker.ts';

/** `vllm preload` needs CUDA, so here it only has to be what the supervisor takes it for, and to fail without harm. */
afterAll(tearDown);

it('vLLM takes the flags of its preload, says that it needs a GPU, and is started to load the weights itself', async () => {
  const vllm = await ensureVllm();
  const queue = await startQueue();
  const tools = ['--enable-auto-tool-choice', '--tool-call-parser', 'hermes'];
  const worker = await startWorker(queue.url, 'cpu', {
    engineArgs: [...TINY_MODEL_ARGS, '--served-model-name', 'tiny', ...tools].join(' '),
    env: {
      ...vllm.env,
      ENGINE: 'vllm',
      VLLM_MODEL: vllm.modelDir,
      VLLM_SERVE_COMMAND: vllm.vllmCommand,
      VLLM_STARTUP_TIMEOUT: String(START_SECONDS),
      ENGINE_KEEP_WEIGHTS: '1',
    },
  });
  await worker.process.waitForLine(/vllm preload ended: .*does not support CUDA IPC/, START_LIMIT.timeoutMs);
  const [engine] = await until(async () => {
    const found = await processesWith(`--port\0${worker.enginePort}\0`);
    return found.length > 0 ? found : null;
  }, 'vLLM is started');
  const command = readFileSync(`/proc/${engine}/cmdline`, 'utf8').split('\0');
  expect(command).toContain('dummy');
  expect(command).not.toContain('ipc_cache');
});

it('vLLM has the words by which the supervisor knows that weights are held', async () => {
  const { python } = await ensureVllm();
  const code = 'import importlib.util; print(importlib.util.find_spec("vllm").submodule_search_locations[0])';
  const { stdout } = await promisify(execFile)(python, ['-c', code]);
  const preload = readFileSync(`${stdout.trim()}/entrypoints/cli/preload.py`, 'utf8');
  expect(preload).toContain('===== Weight cache daemon READY');
  expect(preload).toContain('"--weight-cache-socket-dir"');
});
