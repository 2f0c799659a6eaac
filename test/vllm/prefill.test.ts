import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ensureNixl, ensureVllm, TINY_MODEL_ARGS, TINY_MODEL_VARIABLES } from '../../scripts/vllm/setup.ts';
import { longChat, longCompletion, said, tokensFromElsewhere } from '../support/long-prompts.ts';
import { until } from '../support/poll.ts';
import { freePort } from '../support/ports.ts';
import { type Child, startProcess } from '../support/processes.ts';
import {
  cleanEnvironment,
  type QueueProcess,
  startQueue,
  startWorker,
  tearDown,
  untilReady,
  type WorkerProcess,
} from '../support/road.ts';
import { START_LIMIT, START_SECONDS } from './worker.ts';

/** Two real vLLMs, of which one prefills and the other one decodes, through shared memory (docs/prefill.md). */
const CONNECTOR = {
  kv_connector: 'NixlConnector',
  kv_role: 'kv_both',
  kv_load_failure_policy: 'recompute',
};
const LENGTH = '8192';
let queue: QueueProcess;
let worker: WorkerProcess;
let prefiller: Child;

beforeAll(async () => {
  const vllm = await ensureVllm();
  const PYTHONPATH = await ensureNixl(vllm);
  queue = await startQueue();
  const port = await freePort();
  const sideChannel = async () => ({
    PYTHONPATH,
    // As vLLM does by itself: the model, and what hands its caches over, run in a process of their own.
    VLLM_ENABLE_V1_MULTIPROCESSING: '1',
    VLLM_NIXL_SIDE_CHANNEL_HOST: '127.0.0.1',
    VLLM_NIXL_SIDE_CHANNEL_PORT: String(await freePort()),
  });
  const args = [
    ...['serve', vllm.modelDir, ...TINY_MODEL_ARGS, '--max-model-len', LENGTH],
    ...[
      '--served-model-name',
      'tiny',
      '--port',
      String(port),
      '--kv-transfer-config',
      JSON.stringify(CONNECTOR),
    ],
  ];
  const env = cleanEnvironment({ ...vllm.env, ...(await sideChannel()) });
  prefiller = startProcess(vllm.vllmCommand, args, { env, name: 'the prefill engine' });
  worker = await startWorker(queue.url, 'decoder', {
    env: {
      ...vllm.env,
      ...(await sideChannel()),
      ENGINE: 'vllm',
      ENGINE_PREFILL_URL: `http://127.0.0.1:${port}`,
      VLLM_MODEL: vllm.modelDir,
      ...TINY_MODEL_VARIABLES,
      MAX_MODEL_LEN: LENGTH,
      SERVED_MODEL_NAME: 'tiny',
      VLLM_SERVE_COMMAND: vllm.vllmCommand,
      VLLM_STARTUP_TIMEOUT: String(START_SECONDS),
    },
  });
  await prefiller.waitForLine(/Application startup complete/, START_LIMIT.timeoutMs);
  await until(() => untilReady(queue.url, 'decoder'), 'the worker takes jobs', START_LIMIT);
});
afterAll(tearDown);

/** What the engine that decodes says by itself; nothing of another request's cache. */
async function whole(body: object): Promise<string> {
  return (await said(worker.engineUrl, { ...body, cache_salt: 'whole' })).text;
}

let at = 0;

/** Through both engines; on a busy machine one request or another may run whole, and the answer is the same. */
async function throughBoth(bodyOf: (at: number) => object): Promise<number> {
  const answers: { status: number; text: string; whole: string }[] = [];
  const handed = async () => {
    at += 1;
    const before = await tokensFromElsewhere(worker.engineUrl);
    const { status, text } = await said(queue.url, bodyOf(at));
    answers.push({ status, text, whole: await whole(bodyOf(at)) });
    return (await tokensFromElsewhere(worker.engineUrl)) - before;
  };
  const tokens = await until(handed, 'a prompt is handed over', { timeoutMs: 150_000 });
  expect(answers).toEqual(answers.map((answer) => ({ ...answer, status: 200, text: answer.whole })));
  return tokens;
}

describe('prefill and decode over real vLLM', () => {
  it.each<[string, (at: number) => object]>([
    ['a chat', (at) => longChat(at)],
    ['a streamed chat', (at) => longChat(at, { stream: true, logprobs: true })],
    ['a streamed text completion', (at) => longCompletion(at, { stream: true })],
  ])('give the text of one engine, with the prompt of %s read from the other', async (_, bodyOf) => {
    expect(await throughBoth(bodyOf)).toBeGreaterThan(1000);
  });

  it('hide the death of the engine that prefills', async () => {
    const bodies = Array.from({ length: 6 }, (_, index) =>
      longChat(100 + index, { stream: index % 2 === 0 }),
    );
    const answers = bodies.map((body) => said(queue.url, body));
    await Promise.race(answers);
    process.kill(-prefiller.pid, 'SIGKILL');
    const later = bodies.map((body) => said(queue.url, { ...body, max_tokens: 30 }));
    for (const [index, answer] of (await Promise.all(answers)).entries())
      expect([answer.status, answer.text]).toEqual([200, await whole(bodies[index]!)]);
    for (const [index, answer] of (await Promise.all(later)).entries())
      expect([answer.status, answer.text]).toEqual([200, await whole({ ...bodies[index], max_tokens: 30 })]);
    expect((await fetch(`${worker.engineUrl}/health`)).status).toBe(200);
  });
});
