import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { until } from '../support/poll.ts';
import { freePort } from '../support/ports.ts';
import { type Child, startProcess } from '../support/processes.ts';
import { cleanEnvironment, stateFolder, tearDown } from '../support/road.ts';

/** The local modes of RunPod's SDK, on the command line of the image. */
afterAll(tearDown);

const ENTRY = join(import.meta.dirname, '../../entrypoint.sh');
const INPUT = { prompt: 'Hi', sampling_params: { max_tokens: 2 } };

async function image(args: string[], cwd = stateFolder(), more: NodeJS.ProcessEnv = {}): Promise<Child> {
  const env = cleanEnvironment({
    ...{ ENGINE: 'simulator', MODEL_NAME: 'tiny', VLLM_PORT: String(await freePort()) },
    ...more,
  });
  return startProcess(ENTRY, args, { env, cwd, name: 'image' });
}

function printed(child: Child): Record<string, unknown> {
  const line = child
    .output()
    .split('\n')
    .find((text) => text.startsWith('{"id":'));
  return JSON.parse(line ?? 'null');
}

describe('--test_input', () => {
  it('runs the job, prints its result and ends with 0', async () => {
    const child = await image(['--test_input', JSON.stringify({ input: INPUT })]);
    expect((await child.exited).code).toBe(0);
    expect(printed(child)).toMatchObject({ id: 'local_test', output: [{ object: 'text_completion' }] });
  });

  it('ends with 1 after an error, and without an input', async () => {
    const failed = await image(['--test_input', '{"input": {"prompt": 1}}']);
    const none = await image(['--test_input', '{"id": "x"}']);
    expect((await failed.exited).code).toBe(1);
    expect(printed(failed)).toMatchObject({ error: expect.stringContaining('input.prompt') });
    expect((await none.exited).code).toBe(1);
    expect(none.output()).toContain('The test input has no "input"');
  });

  it('is read from test_input.json where there is no queue', async () => {
    const folder = stateFolder();
    writeFileSync(join(folder, 'test_input.json'), JSON.stringify({ id: 'mine', input: INPUT }));
    const child = await image([], folder);
    expect((await child.exited).code).toBe(0);
    expect(printed(child)).toMatchObject({ id: 'mine' });
  });
});

describe('--rp_serve_api', () => {
  it('answers as RunPod’s local API', async () => {
    const port = await freePort();
    const child = await image([
      '--rp_serve_api',
      '--rp_api_host',
      '127.0.0.1',
      '--rp_api_port',
      String(port),
    ]);
    await child.waitForLine(/local API is at/);
    const post = async (path: string, body?: unknown) => {
      const init = { method: 'POST', ...(body !== undefined && { body: JSON.stringify(body) }) };
      const response = await fetch(`http://127.0.0.1:${port}${path}`, init);
      return { status: response.status, body: (await response.json()) as Record<string, never> };
    };
    await until(async () => (await fetch(`http://127.0.0.1:${port}/`)).ok, 'it is there');
    expect(await post('/runsync', { input: INPUT })).toMatchObject({
      status: 200,
      body: {
        id: expect.stringMatching(/^test-/),
        status: 'COMPLETED',
        output: [{ object: 'text_completion' }],
      },
    });
    const { id, status } = (await post('/run', { input: { ...INPUT, stream: true } })).body;
    expect(status).toBe('IN_PROGRESS');
    const streamed = (await post(`/stream/${id}`)).body as unknown as { stream: { output: string }[] };
    expect(streamed.stream.map(({ output }) => output).join('')).toContain('[DONE]');
    expect((await post(`/status/${id}`)).body).toMatchObject({ status: 'FAILED', error: 'Job ID not found' });
    expect((await post('/runsync', { nothing: 1 })).status).toBe(422);
    expect((await post('/runsync', { input: { prompt: 1 } })).body).toMatchObject({ status: 'FAILED' });
    child.kill('SIGTERM');
    expect((await child.exited).code).toBe(0);
  });
});
