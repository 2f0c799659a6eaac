import { afterAll, afterEach, expect, it } from 'vitest';
import { ensureVllm, TINY_MODEL_VARIABLES } from '../../scripts/vllm/setup.ts';
import { until } from '../support/poll.ts';
import { engineRunning, tearDown } from '../support/road.ts';
import { seenAtWork } from '../support/seen-at-work.ts';
import { endAll, startPlatform, startServerlessWorker } from '../support/serverless-road.ts';
import { START_LIMIT } from './worker.ts';

/** This worker in a RunPod endpoint over real vLLM, with the variables of RunPod's form. */
afterEach(endAll);
afterAll(tearDown);

async function started() {
  const vllm = await ensureVllm();
  const { platform, endpoint } = await startPlatform();
  const worker = await startServerlessWorker(endpoint, {
    env: {
      ...vllm.env,
      ...{
        ENGINE: 'vllm',
        MODEL_NAME: vllm.modelDir,
        VLLM_SERVE_COMMAND: vllm.vllmCommand,
        GPU_CHECK: 'off',
      },
      ...{ ...TINY_MODEL_VARIABLES, MAX_MODEL_LEN: '2048', OPENAI_SERVED_MODEL_NAME_OVERRIDE: 'tiny' },
    },
  });
  await until(() => platform.of('take').length > 0, 'the worker asks for jobs', START_LIMIT);
  return { platform, ...worker };
}

it('runs jobs, streams, errors and stops, and ends in order', async () => {
  const { platform, process, engineUrl } = await started();
  const sampling_params = { max_tokens: 8, ignore_eos: true };
  const messages = [{ role: 'user', content: 'Say hello.' }];
  const prompt = platform.submit('prompt', { prompt: 'Hello', sampling_params });
  const stream = platform.submit('stream', { messages, sampling_params, stream: true });
  const chat = platform.submit('chat', {
    openai_route: '/v1/chat/completions',
    openai_input: { model: 'tiny', messages, max_tokens: 4 },
  });
  const models = platform.submit('models', { openai_route: '/v1/models' });
  const bad = platform.submit('bad', { prompt: 'Hello', sampling_params: { max_tokens: 100_000 } });
  await until(() => platform.isOver('prompt', 'stream', 'chat', 'models', 'bad'), 'all are over');
  expect(prompt.output).toMatchObject([{ object: 'text_completion', usage: { completion_tokens: 8 } }]);
  expect(stream.stream).toEqual(stream.output);
  expect((stream.output as string[]).join('')).toMatch(/^data: \{[\s\S]*data: \[DONE\]\n\n$/);
  expect(chat.output).toMatchObject([{ object: 'chat.completion', model: 'tiny' }]);
  expect(models.output).toMatchObject([{ data: [{ id: 'tiny' }] }]);
  expect(bad.error).toMatch(/^Error code: 400 - /);

  let count = 0;
  const { id } = await seenAtWork(
    async () => {
      count += 1;
      const id = `long-${count}`;
      const long = platform.submit(id, {
        prompt: 'Hello',
        sampling_params: { max_tokens: 1900, ignore_eos: true },
        stream: true,
      });
      return { id, howOver: () => (platform.isOver(id) ? String(long.error ?? 'succeeded') : null) };
    },
    async () => (await engineRunning(engineUrl)) === 1,
    'it runs',
  );
  platform.stop(id);
  await until(async () => (await engineRunning(engineUrl)) === 0, 'the engine has stopped');
  expect(platform.of('done', id)).toEqual([]);
  expect(platform.violations).toEqual([]);
  process.kill('SIGTERM');
  expect((await process.exited).code).toBe(0);
});
