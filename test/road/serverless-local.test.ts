import { writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { connect } from 'node:net';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { until } from '../support/poll.ts';
import { freePort } from '../support/ports.ts';
import { type Child, startProcess } from '../support/processes.ts';
import { startReceiver } from '../support/receiver.ts';
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

  it('asks the engine for nothing that only engines say to each other, however that is written', async () => {
    const body = {
      messages: [{ role: 'user', content: 'Hi' }],
      kv_transfer_params: { do_remote_prefill: true },
    };
    const inputs = [
      { openai_input: JSON.stringify(body) },
      { openai_input: { ...body, kv_transfer_params: null, vllm_xargs: body } },
    ];
    const children = await Promise.all(
      inputs.map((input) => image(['--test_input', JSON.stringify({ input })])),
    );
    for (const child of children) {
      expect((await child.exited).code).toBe(1);
      expect(printed(child)).toMatchObject({ error: expect.stringContaining('kv_transfer_params') });
    }
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
    const latin = Buffer.from('{"input":{"prompt":"Grüße"}}', 'latin1');
    const refused = await fetch(`http://127.0.0.1:${port}/runsync`, { method: 'POST', body: latin });
    expect([refused.status, await refused.text()]).toEqual([422, expect.stringContaining('UTF-8')]);
    expect((await post('/runsync', { input: { prompt: 1 } })).body).toMatchObject({ status: 'FAILED' });
    child.kill('SIGTERM');
    expect((await child.exited).code).toBe(0);
  });
  it('serves this machine alone, in bounds, and outlives callers that break off', async () => {
    const port = await freePort();
    const options = ['--rp_serve_api', '--rp_api_host', '127.0.0.1', '--rp_api_port', String(port)];
    const child = await image(options);
    await child.waitForLine(/local API is at/);
    await until(async () => (await fetch(`http://127.0.0.1:${port}/`)).ok, 'it is there');
    const statusOf = (headers: Record<string, string>, body: object = { input: INPUT }) =>
      new Promise<number>((done, failed) => {
        const asked = request(
          { port, host: '127.0.0.1', path: '/runsync', method: 'POST', headers },
          (answer) => {
            answer.resume();
            done(answer.statusCode!);
          },
        );
        asked.once('error', failed);
        asked.end(JSON.stringify(body));
      });
    for (const announced of ['Content-Length: 1000', 'Transfer-Encoding: chunked']) {
      const caller = connect(port, '127.0.0.1');
      caller.write(`POST /run HTTP/1.1\r\nHost: localhost:${port}\r\n${announced}\r\n\r\n{"inp`);
      await new Promise((done) => caller.once('connect', done));
      caller.resetAndDestroy();
    }
    const host = `127.0.0.1:${port}`;
    expect(await statusOf({ host: 'rebound.example' })).toBe(403);
    expect(await statusOf({ host, origin: 'https://elsewhere.example' })).toBe(403);
    expect(await statusOf({ host, 'x-forwarded-for': '203.0.113.7' })).toBe(403);
    const large = connect(port, '127.0.0.1');
    let heard = '';
    large.on('data', (data) => {
      heard += data;
    });
    large.write(`POST /run HTTP/1.1\r\nHost: ${host}\r\nContent-Length: 99000000\r\n\r\n{"input":"`);
    await until(
      () => heard.startsWith('HTTP/1.1 413'),
      'a body that is too large is refused before it has come',
    );
    large.destroy();
    const receiver = await startReceiver();
    try {
      for (const webhook of [
        receiver.url,
        'https://127.0.0.1/',
        'https://[::1]/x',
        'http://hooks.example',
        'x',
      ]) {
        expect(await statusOf({ host }, { input: INPUT, webhook })).toBe(422);
      }
      expect(receiver.posts).toEqual([]);
    } finally {
      await receiver.stop();
    }
    expect(await statusOf({ host })).toBe(200);
    child.kill('SIGTERM');
    expect((await child.exited).code).toBe(0);
  });

  it('posts to an inside address that its operator names', async () => {
    const receiver = await startReceiver();
    const port = await freePort();
    const options = ['--rp_serve_api', '--rp_api_host', '127.0.0.1', '--rp_api_port', String(port)];
    const hosts = { WORKER_PAYLOAD_HOSTS: new URL(receiver.url).host };
    const child = await image(options, stateFolder(), hosts);
    await child.waitForLine(/local API is at/);
    await until(async () => (await fetch(`http://127.0.0.1:${port}/`)).ok, 'it is there');
    const body = JSON.stringify({ input: INPUT, webhook: receiver.url });
    expect((await fetch(`http://127.0.0.1:${port}/runsync`, { method: 'POST', body })).status).toBe(200);
    await until(() => receiver.posts.length > 0, 'the webhook');
    expect(receiver.posts[0]!.body).toMatchObject({ output: [{ object: 'text_completion' }] });
    await receiver.stop();
    child.kill('SIGTERM');
    expect((await child.exited).code).toBe(0);
  });
});
