import { afterAll, expect, it } from 'vitest';
import { EXIT } from '../../src/process/index.ts';
import { cli, tearDown } from '../support/road.ts';

afterAll(tearDown);

it.each([
  ['supervise', { VLLM_MODLE: 'a/b' }, 'VLLM_MODLE', 'VLLM_MODEL', 'VLLM_MODEL is not set'],
  ['work', { ENGINE_ULR: 'http://x' }, 'ENGINE_ULR', 'ENGINE_URL', 'ENGINE_URL is not set'],
  ['queue', { QUEUE_PROT: '1', QUEUE_PORT: 'x' }, 'QUEUE_PROT', 'QUEUE_PORT', 'QUEUE_PORT="x"'],
])('%s says which variable is misspelt, and then what is wrong', async (command, env, name, meant, wrong) => {
  const process = cli([command], env);
  expect((await process.exited).code).toBe(EXIT.configuration);
  expect(process.output()).toContain(`warning: ${name} is ignored`);
  expect(process.output()).toContain(`did you mean ${meant}?`);
  expect(process.output()).toContain(wrong);
});

it('a worker alone without variables asks for those that its help names', async () => {
  const process = cli(['work']);
  expect((await process.exited).code).toBe(EXIT.configuration);
  for (const name of ['CASOLA_WS_URL', 'CASOLA_CONFIG_ID', 'ENGINE_URL'])
    expect(process.output()).toContain(`${name} is not set`);
  expect(process.output()).not.toContain('VLLM_MODEL');
});

it('a model says that the engine beside a worker alone is vLLM, wherever it listens', async () => {
  const process = cli(['work'], { VLLM_MODEL: 'a/b' });
  expect((await process.exited).code).toBe(EXIT.configuration);
  expect(process.output()).not.toContain('ENGINE_URL');
});
