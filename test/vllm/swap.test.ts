import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ensureVllm, TINY_MODEL_ARGS } from '../../scripts/vllm/setup.ts';
import { writeEnvFile } from '../support/env-file.ts';
import { until } from '../support/poll.ts';
import { freePort } from '../support/ports.ts';
import type { Child } from '../support/processes.ts';
import { cli, type QueueProcess, startQueue, stateFolder, tearDown, untilReady } from '../support/road.ts';
import { START_LIMIT, START_SECONDS } from './worker.ts';

/** Two models that take turns at one GPU, over real vLLM; on a CPU it does all but free the memory. */
const MODELS = ['llama', 'qwen'] as const;
type Model = (typeof MODELS)[number];
/** Shorter than one model sleeps while the other one starts: what is done is seen by the end of the start. */
const HANG_SECONDS = 15;
let queue: QueueProcess;
let swap: Child;
/** Asked of the first while the second one starts. */
let waited: Promise<Answer>;

interface Answer {
  model: string;
  usage: { completion_tokens: number };
}

beforeAll(async () => {
  const vllm = await ensureVllm();
  queue = await startQueue();
  const folder = stateFolder();
  const files = await Promise.all(
    MODELS.map(async (model) =>
      writeEnvFile(folder, model, {
        VLLM_SERVED_MODEL_NAME: model,
        VLLM_PORT: await freePort(),
        CASOLA_CONFIG_ID: `pool-${model}`,
        CASOLA_INSTANCE_ID: model,
      }),
    ),
  );
  swap = cli(['swap', ...files], {
    ...vllm.env,
    VLLM_MODEL: vllm.modelDir,
    // A CPU build refuses the flag that swap sets; its routes need none.
    VLLM_EXTRA_ARGS: [...TINY_MODEL_ARGS, '--no-enable-sleep-mode'].join(' '),
    VLLM_SERVE_COMMAND: vllm.vllmCommand,
    VLLM_STARTUP_TIMEOUT: String(START_SECONDS),
    CASOLA_WS_URL: queue.url.replace(/^http/, 'ws'),
    CASOLA_API_URL: queue.url,
    CASOLA_MAX_JOBS: '8',
    ENGINE_AWAKE_SECONDS: '1',
    ENGINE_HANG_SECONDS: String(HANG_SECONDS),
    ENGINE_CANARY_SECONDS: String(HANG_SECONDS),
  });
  await ready('llama');
  await until(() => times('engine: sleep') > times('engine: wake_up'), 'the first sleeps', START_LIMIT);
  waited = ask('llama');
  waited.catch(() => {});
  await ready('qwen');
}, 1_200_000);
afterAll(tearDown);

/** It takes jobs. */
async function ready(model: Model): Promise<void> {
  const ended = swap.exited.then(({ code }) => {
    throw new Error(`swap ended with ${code}:\n${swap.output()}`);
  });
  await Promise.race([until(() => untilReady(queue.url, model), `${model} takes jobs`, START_LIMIT), ended]);
}

async function ask(model: Model, max_tokens = 4): Promise<Answer> {
  const answer = await fetch(`${queue.url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model, prompt: 'Say hello.', max_tokens, ignore_eos: true }),
  });
  expect(answer.status).toBe(200);
  return (await answer.json()) as Answer;
}

const times = (what: string) => swap.output().split(what).length - 1;

describe('two models that share a GPU, over real vLLM', () => {
  it('the first sleeps while the second one starts, and is taken for hung by nobody', async () => {
    expect(await waited).toMatchObject({ model: 'llama', usage: { completion_tokens: 4 } });
    // The second one may have to wake for its own first answer.
    expect(times('engine: wake_up')).toBeGreaterThanOrEqual(1);
    expect(swap.output()).not.toMatch(/the engine hangs/);
  });

  it('each answers, sleeps and wakes again', async () => {
    await ask('qwen');
    const before = times('engine: wake_up');
    for (const model of ['llama', 'qwen', 'llama'] as const)
      expect(await ask(model)).toMatchObject({ model, usage: { completion_tokens: 4 } });
    expect(times('engine: wake_up')).toBe(before + 3);
  });

  it('both answer all that is asked of them at once, with answers longer than a turn', async () => {
    const answers = await Promise.all([...MODELS, ...MODELS].map((model) => ask(model, 200)));
    for (const [index, { model, usage }] of answers.entries())
      expect([model, usage]).toMatchObject([MODELS[index % 2], { completion_tokens: 200 }]);
  });

  it('end in order', async () => {
    swap.kill('SIGTERM');
    expect((await swap.exited).code).toBe(0);
  });
});
