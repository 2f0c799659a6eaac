import { describe } from 'vitest';
import { ensureVllm, TINY_MODEL_ARGS } from '../../scripts/vllm/setup.ts';
import { CONTRACT_ARGS, engineContract } from '../engine/contract.ts';
import { until } from '../support/poll.ts';
import { freePort } from '../support/ports.ts';
import { startProcess } from '../support/processes.ts';

describe('real vLLM', () => {
  engineContract(async () => {
    const vllm = await ensureVllm();
    const port = await freePort();
    const address = ['--host', '127.0.0.1', '--port', String(port)];
    const server = startProcess(
      vllm.vllmCommand,
      ['serve', vllm.modelDir, ...TINY_MODEL_ARGS, ...CONTRACT_ARGS, ...address],
      { env: { ...process.env, ...vllm.env }, name: 'vllm serve' },
    );
    const url = `http://127.0.0.1:${port}`;
    let ended = false;
    void server.exited.then(() => {
      ended = true;
    });
    await until(async () => ended || (await fetch(`${url}/health`)).ok, 'vLLM is healthy', {
      timeoutMs: 240_000,
    });
    if (ended) throw new Error(`vLLM ended while it started:\n${server.output()}`);
    return { url, stop: () => server.stop() };
  });
});
