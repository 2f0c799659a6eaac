import { readFileSync } from 'node:fs';
import { afterAll, afterEach, expect, it } from 'vitest';
import { bundle } from '../support/bundles.ts';
import { until } from '../support/poll.ts';
import { tearDown } from '../support/road.ts';
import { endAll, startEndpoint } from '../support/serverless-road.ts';

/** FastDeploy in a RunPod endpoint, with what its Hub forms set: the server is the simulator in FastDeploy's dialect. */
afterEach(endAll);
afterAll(tearDown);

const form = JSON.parse(readFileSync('.runpod/fastdeploy/hub.json', 'utf8'));
const hubTests = JSON.parse(readFileSync('.runpod/fastdeploy/tests.json', 'utf8'));

/** What RunPod sets in a container of the form: its fixed values, its defaults, and those of its first preset. */
function formValues(): Record<string, string> {
  const values: [string, string][] = form.config.env.flatMap(
    (row: { key: string; value?: string; input?: { default?: unknown } }) => {
      const value = row.value ?? row.input?.default;
      return value === undefined ? [] : [[row.key, String(value)]];
    },
  );
  return { ...Object.fromEntries(values), ...form.config.presets[0].defaults };
}

const env = {
  ...formValues(),
  MODEL_NAME: undefined,
  VLLM_SERVE_COMMAND: `${process.execPath} ${bundle('simulator')} --dialect fastdeploy --inter-token-latency-ms 20`,
};

it('answers the jobs of its Hub tests, in a container that its Hub form makes', async () => {
  const { platform } = await startEndpoint({ env });
  const jobs = (hubTests.tests as { name: string; input: unknown }[]).map(({ name, input }) =>
    platform.submit(name, input),
  );
  await until(() => platform.isOver(...jobs.map(({ id }) => id)), 'all are over');
  for (const job of jobs) expect(job).toMatchObject({ status: 'COMPLETED' });
  expect(platform.violations).toEqual([]);
});

it('streams batches of tokens that grow, in the form of its worker', async () => {
  const { platform } = await startEndpoint({
    env: { ...env, RUNPOD_OUTPUT: 'tokens' },
  });
  const job = platform.submit('stream', {
    messages: [{ role: 'user', content: 'Say something.' }],
    sampling_params: { max_tokens: 24, ignore_eos: true },
    stream: true,
    min_batch_size: 2,
    max_batch_size: 8,
    batch_size_growth_factor: 2,
  });
  await until(() => platform.isOver('stream'), 'it is over');
  const output = job.output as { choices: { tokens: string[] }[]; usage: object }[];
  // Batches of 2, 4, 8 and 8 tokens and the rest; a slow post joins some.
  let tokens = 0;
  const ends = output.map(({ choices }) => (tokens += choices[0]!.tokens.length));
  expect(ends.length).toBeGreaterThan(1);
  expect([2, 6, 14, 22, 24]).toEqual(expect.arrayContaining(ends));
  expect(tokens).toBe(24);
  expect(output.at(-1)!.usage).toEqual({ input: expect.any(Number), output: 24 });
});

it('gives OpenAI’s bodies where a job names one of its routes', async () => {
  const { platform } = await startEndpoint({ env });
  const job = platform.submit('openai', {
    openai_route: '/v1/chat/completions',
    openai_input: { messages: [{ role: 'user', content: 'Say something.' }], max_tokens: 4 },
  });
  const models = platform.submit('models', { openai_route: '/v1/models', openai_input: {} });
  await until(() => platform.isOver('openai', 'models'), 'both are over');
  expect(job.output).toMatchObject([{ object: 'chat.completion' }]);
  expect(models.output).toMatchObject([
    { object: 'list', data: [{ id: form.config.presets[0].defaults.MODEL }] },
  ]);
});
