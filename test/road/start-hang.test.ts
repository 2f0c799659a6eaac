import { fileURLToPath } from 'node:url';
import { afterAll, expect, it } from 'vitest';
import { EXIT } from '../../src/process/index.ts';
import { processesWith, startWorker, tearDown } from '../support/road.ts';

const ENGINE = fileURLToPath(new URL('../support/stand-ins/engine.ts', import.meta.url));
afterAll(tearDown);

it('ends an engine that says why it cannot start and then hangs, with the code of the cause', async () => {
  const complaint = 'RuntimeError: CUDA driver version is insufficient for CUDA runtime version';
  const { process: supervisor, enginePort } = await startWorker('http://127.0.0.1:9', 'w', {
    engineArgs: `--load-ms 600000 --complain '${complaint}'`,
    env: { ENGINE: 'vllm', GPU_CHECK: 'off', VLLM_SERVE_COMMAND: `${process.execPath} ${ENGINE}` },
  });
  expect((await supervisor.exited).code).toBe(EXIT.badHost);
  expect(supervisor.output()).toMatch(/does not start and does not end: the NVIDIA driver of this machine/);
  expect(await processesWith(`--port\0${enginePort}`)).toEqual([]);
});
