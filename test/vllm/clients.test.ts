import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ClientsInstall } from '../../scripts/clients/setup.ts';
import { ensureVllm, TINY_MODEL_ARGS, type VllmInstall } from '../../scripts/vllm/setup.ts';
import { EXPECTED, EXPECTED_OF_AN_ENGINE, installExamples, runExample } from '../support/examples.ts';
import { until } from '../support/poll.ts';
import { type QueueProcess, startQueue, startWorker, tearDown, untilReady } from '../support/road.ts';

/** Other people's clients over the road to the real engine: the examples, and vLLM's own commands. */
let vllm: VllmInstall;
let clients: ClientsInstall;
let queue: QueueProcess;

beforeAll(async () => {
  vllm = await ensureVllm();
  clients = await installExamples();
  queue = await startQueue();
  const worker = await startWorker(queue.url, 'real', {
    engineArgs: [
      ...[...TINY_MODEL_ARGS, '--served-model-name', 'tiny'],
      ...['--enable-auto-tool-choice', '--tool-call-parser', 'hermes'],
    ].join(' '),
    env: {
      ...vllm.env,
      ENGINE: 'vllm',
      VLLM_MODEL: vllm.modelDir,
      VLLM_SERVE_COMMAND: vllm.vllmCommand,
      VLLM_STARTUP_TIMEOUT: '240',
      CASOLA_MAX_JOBS: '8',
      CASOLA_SHUTDOWN_GRACE_PERIOD: '4',
    },
  });
  await until(
    async () => worker.process.output().includes('taking jobs') && (await untilReady(queue.url, 'real')),
    'the worker takes jobs',
    { timeoutMs: 240_000 },
  );
});
afterAll(tearDown);

const command = async (...args: string[]) => {
  const { stdout } = await promisify(execFile)(vllm.vllmCommand, args, {
    env: { ...process.env, ...vllm.env, NO_PROXY: '*', no_proxy: '*', OPENAI_API_KEY: 'none' },
  });
  return stdout;
};

describe('over real vLLM', () => {
  // A model of random weights says anything: that something is said is for the simulator's tier to see.
  const words = Object.entries({ ...EXPECTED, ...EXPECTED_OF_AN_ENGINE });
  it.each(words)('the example %s runs', async (name, expected) => {
    const lenient = expected.map(
      ({ source, flags }) => new RegExp(source.replace(': +\\S', ':'), `${flags}s`),
    );
    await runExample(clients, name, queue.url, lenient);
  });

  it('vllm bench serve runs without naming the model', async () => {
    const out = await command(
      ...['bench', 'serve', '--backend', 'openai-chat', '--base-url', queue.url],
      ...['--endpoint', '/v1/chat/completions', '--dataset-name', 'random', '--tokenizer', vllm.modelDir],
      ...['--random-input-len', '16', '--random-output-len', '8', '--num-prompts', '8'],
    );
    expect(out).toMatch(/Successful requests: +8\b/);
  });

  it('vllm chat answers', async () => {
    const out = await command('chat', '--url', `${queue.url}/v1`, '--quick', 'Say hello.');
    expect(out).toContain('Using model: tiny');
  });
});
