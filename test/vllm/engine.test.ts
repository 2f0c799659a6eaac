import { afterAll, beforeAll, describe } from 'vitest';
import { ensureVllm, TINY_MODEL_ARGS, type VllmInstall } from '../../scripts/vllm/setup.ts';
import { CONTRACT_ARGS, engineContract } from '../engine/contract/index.ts';
import { roadContract } from '../engine/road-contract.ts';
import { until } from '../support/poll.ts';
import { freePort } from '../support/ports.ts';
import { type Child, startProcess } from '../support/processes.ts';
import { tearDown } from '../support/road.ts';
import { refusedOnce } from './refused-once.ts';
import { routesOverVllm } from './routes.ts';
import { type Served, START_LIMIT } from './worker.ts';

/** One server for all that needs no other flags: it takes half a minute to start. */
describe('real vLLM', () => {
  let vllm: VllmInstall;
  let server: Child;
  let url: string;

  beforeAll(async () => {
    vllm = await ensureVllm();
    const port = await freePort();
    const address = ['--host', '127.0.0.1', '--port', String(port)];
    server = startProcess(
      vllm.vllmCommand,
      ['serve', vllm.modelDir, ...TINY_MODEL_ARGS, ...CONTRACT_ARGS, ...address],
      { env: { ...process.env, ...vllm.env }, name: 'vllm serve' },
    );
    url = `http://127.0.0.1:${port}`;
    let ended = false;
    void server.exited.then(() => {
      ended = true;
    });
    await until(async () => ended || (await fetch(`${url}/health`)).ok, 'vLLM is healthy', START_LIMIT);
    if (ended) throw new Error(`vLLM ended while it started:\n${server.output()}`);
  });
  afterAll(tearDown);

  const running = async () => ({ url, stop: async () => {} });
  engineContract(running);
  roadContract('vllm', running);
  const served = (): Served => ({ vllm, url, output: () => server.output() });
  refusedOnce(served);
  routesOverVllm(served);
});
