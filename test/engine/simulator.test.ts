import { once } from 'node:events';
import { connect } from 'node:net';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { type Simulator, type SimulatorOptions, startSimulator } from '../../src/simulator/index.ts';
import { until } from '../support/poll.ts';
import { freePort } from '../support/ports.ts';
import { type Child, runningProcesses, startProcess, stopAllProcesses } from '../support/processes.ts';
import { readEvents, sumOf } from './contract/calls.ts';
import { CONTRACT_ARGS, engineContract } from './contract/index.ts';

const MAIN = fileURLToPath(new URL('../../src/simulator/main.ts', import.meta.url));

const ENGINE_DEAD = {
  error: {
    message: 'EngineCore encountered an issue. See stack trace (above) for the root cause.',
    type: 'InternalServerError',
    param: null,
    code: 500,
  },
};

async function spawnSimulator(...args: string[]): Promise<{ url: string; child: Child }> {
  const port = await freePort();
  const child = startProcess(process.execPath, [MAIN, 'tiny-model', '--port', String(port), ...args], {
    name: 'simulator',
  });
  return { url: `http://127.0.0.1:${port}`, child };
}

async function readySimulator(...args: string[]): Promise<{ url: string; child: Child }> {
  const simulator = await spawnSimulator(...args);
  await simulator.child.waitForLine(/Application startup complete/);
  return simulator;
}

function chat(url: string, body: Record<string, unknown> = {}, init: RequestInit = {}): Promise<Response> {
  return fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    body: JSON.stringify({ messages: [{ role: 'user', content: 'hello' }], ...body }),
    ...init,
    headers: { 'content-type': 'application/json', ...init.headers },
  });
}

/** Everything that the engine sends on a bare connection until it closes; reading begins after `before`. */
async function rawChat(url: string, asked: object, before?: () => Promise<unknown>): Promise<string> {
  const { hostname, port } = new URL(url);
  const body = JSON.stringify({ messages: [{ role: 'user', content: 'hello' }], ...asked });
  const socket = connect(Number(port), hostname).setEncoding('utf8').pause();
  socket.write(
    `POST /v1/chat/completions HTTP/1.1\r\nhost: engine\r\nconnection: close\r\n` +
      `content-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
  await before?.();
  let text = '';
  socket.on('data', (part: string) => {
    text += part;
  });
  socket.resume();
  await once(socket, 'close');
  return text;
}

const longStream = { stream: true, ignore_eos: true, max_tokens: 30_000 };

/** A pace that lets a long stream live through a test. */
const SLOWLY = ['--inter-token-latency-ms', '5'];

async function control(url: string, route: string, values: unknown): Promise<Response> {
  const headers = { 'content-type': 'application/json' };
  return fetch(`${url}/simulator/${route}`, { method: 'POST', body: JSON.stringify(values), headers });
}

const gauge = async (url: string, name: string) => sumOf(await (await fetch(`${url}/metrics`)).text(), name);

describe('the simulator', () => {
  engineContract(async () => {
    // Slow enough for a test to see a request run, fast enough for 2,000 tokens.
    const { url, child } = await readySimulator(...CONTRACT_ARGS, '--inter-token-latency-ms', '0.5');
    return { url, stop: () => child.stop() };
  });
});

describe('the command of the simulator', () => {
  afterEach(stopAllProcesses);
  afterAll(() => expect(runningProcesses()).toEqual([]));

  it('is refused until it has gone through the phases of a start, then healthy', async () => {
    const { url, child } = await spawnSimulator('--startup-seconds', '0.5');
    await child.waitForLine(
      /^\(APIServer pid=\d+\) INFO \d\d-\d\d \d\d:\d\d:\d\d \[\S+:\d+\] non-default args:/,
    );
    // Where this process stood still meanwhile, the start is over.
    const isRefused = await fetch(`${url}/health`).then(
      () => false,
      () => true,
    );
    if (!isRefused) await child.waitForLine(/Starting vLLM server on http/);
    await child.waitForLine(/^INFO: {5}Application startup complete\.$/);
    expect((await fetch(`${url}/health`)).status).toBe(200);
    const phases = [
      ...['non-default args:', 'Resolved architecture:', 'Initializing a V1 LLM engine'],
      ...['Starting to load model', 'Loading safetensors checkpoint shards: 100%', 'Model loading took'],
      ...[
        'KV cache size: 2,097,152 tokens',
        'init engine \\(',
        'Supported tasks:',
        'Starting vLLM server on http',
      ],
    ];
    expect(child.output()).toMatch(new RegExp(phases.join('[^]*')));
  });

  it('loses a signal that comes while it loads, as vLLM does', async () => {
    const { child } = await spawnSimulator('--startup-seconds', '1');
    await child.waitForLine(/Starting to load model/);
    child.kill('SIGTERM');
    await child.waitForLine(/Application startup complete/);
  });

  it('exits 2 and names the arguments it does not know', async () => {
    const { child } = await spawnSimulator('--no-such-flag', '--enforce-eager', '--other', 'x');
    expect(await child.exited).toEqual({ code: 2, signal: null });
    expect(child.output()).toContain('vllm serve: error: unrecognized arguments: --no-such-flag --other x');
  });

  it('exits 2 on a value of the wrong kind', async () => {
    const { child } = await spawnSimulator('--max-num-seqs', 'many');
    expect(await child.exited).toEqual({ code: 2, signal: null });
    expect(child.output()).toContain("vllm serve: error: argument --max-num-seqs: invalid int value: 'many'");
  });

  it('takes the common flags of vLLM, with underscores too', async () => {
    const { url } = await readySimulator(
      ...['--dtype', 'bfloat16', '--enforce-eager', '-tp', '2', '--gpu_memory_utilization=0.9'],
      ...['--max_model_len', '4k', '--no-enable-prefix-caching', '--hf-overrides', '{"a": 1}'],
    );
    const models = await (await fetch(`${url}/v1/models`)).json();
    expect(models).toMatchObject({ data: [{ id: 'tiny-model', max_model_len: 4000 }] });
  });

  it('exits 1 when its port is taken', async () => {
    const first = await readySimulator();
    const second = startProcess(process.execPath, [MAIN, 'm', '--port', new URL(first.url).port]);
    expect(await second.exited).toEqual({ code: 1, signal: null });
    expect(second.output()).toContain('OSError: [Errno 98] Address already in use');
  });

  it('exits 1 with the root cause in its log when told to fail its start', async () => {
    const { child } = await spawnSimulator('--fault', 'start_failure=OutOfMemoryError: CUDA out of memory.');
    expect(await child.exited).toEqual({ code: 1, signal: null });
    expect(child.output()).toMatch(/\(EngineCore [^)]*\) ERROR .*OutOfMemoryError: CUDA out of memory\./);
    expect(child.output()).toContain('RuntimeError: Engine core initialization failed. See root cause above');
  });

  it('ends on SIGTERM: new connections refused, live requests told, exit 0', async () => {
    const { url, child } = await readySimulator(...SLOWLY);
    const stream = await chat(url, longStream);
    const whole = chat(url, { ...longStream, stream: false });
    await until(async () => (await gauge(url, 'num_requests_running')) === 2, 'both run');
    child.kill('SIGTERM');
    const { events, done } = await readEvents(stream);
    expect(events.at(-1)).toEqual(ENGINE_DEAD);
    expect(done).toBe(true);
    expect((await whole).status).toBe(500);
    expect(await child.exited).toEqual({ code: 0, signal: null });
    await expect(fetch(`${url}/health`)).rejects.toThrow();
  });

  it('dies after the given number of tokens: every stream is told, exit 0', async () => {
    const { url, child } = await readySimulator(...SLOWLY, '--fault', 'die_after_tokens=20');
    const streams = await Promise.all(
      [1, 2].map(async (seed) => readEvents(await chat(url, { ...longStream, seed }))),
    );
    for (const { events, done } of streams) {
      expect(events.at(-1)).toEqual(ENGINE_DEAD);
      expect(done).toBe(true);
    }
    expect(await child.exited).toEqual({ code: 0, signal: null });
    expect(child.output()).toContain('engine core exited unexpectedly');
  });

  it('writes a line for each request', async () => {
    const { url, child } = await readySimulator();
    await chat(url, { model: 'nosuch' });
    await child.waitForLine(
      /^INFO: {5}127\.0\.0\.1:\d+ - "POST \/v1\/chat\/completions HTTP\/1\.1" 404 Not Found$/,
    );
  });
});

describe('a fault of the simulator', () => {
  const started: Simulator[] = [];
  const start = async (options: Partial<SimulatorOptions> = {}) => {
    const simulator = await startSimulator(options);
    started.push(simulator);
    return simulator;
  };
  afterEach(async () => {
    await Promise.all(started.splice(0).map((simulator) => simulator.close()));
  });

  it('hang silences streams while health stays good, and lets them go on when lifted', async () => {
    const { url } = await start({ interTokenLatencyMs: 1 });
    const stream = readEvents(await chat(url, { stream: true, ignore_eos: true, max_tokens: 300 }));
    await until(async () => (await gauge(url, 'generation_tokens_total')) > 5, 'it generates');
    await control(url, 'faults', { hang: true });
    const hung = await gauge(url, 'generation_tokens_total');
    const waiting = chat(url, { max_tokens: 1 });
    await until(async () => (await gauge(url, 'num_requests_waiting')) === 1, 'a new request waits');
    expect(await gauge(url, 'generation_tokens_total')).toBe(hung);
    expect((await fetch(`${url}/health`)).status).toBe(200);
    await control(url, 'faults', { hang: false });
    expect((await stream).done).toBe(true);
    expect((await waiting).status).toBe(200);
  });

  it('refuse answers 503, unhealthy makes health bad, error_500 spends itself', async () => {
    const { url } = await start();
    await control(url, 'faults', { refuse: true, unhealthy: true });
    expect((await chat(url)).status).toBe(503);
    expect((await fetch(`${url}/health`)).status).toBe(503);
    await fetch(`${url}/simulator/faults`, { method: 'DELETE' });
    expect((await fetch(`${url}/health`)).status).toBe(200);
    await control(url, 'faults', { error_500: 2 });
    const statuses = [await chat(url), await chat(url), await chat(url)].map(({ status }) => status);
    expect(statuses).toEqual([500, 500, 200]);
  });

  it('cut_stream_after breaks the connection after so many tokens', async () => {
    const { url } = await start();
    await control(url, 'faults', { cut_stream_after: 3 });
    const text = await rawChat(url, longStream);
    expect(text.match(/"token_ids":null/g)).toHaveLength(3);
    expect(text).not.toContain('\r\n0\r\n');
    await until(async () => (await gauge(url, 'num_requests_running')) === 0, 'its place is free');
  });

  it('that does not exist, or has a bad value, is refused with the names there are', async () => {
    const { url } = await start();
    const unknown = await control(url, 'faults', { nope: 1 });
    expect(unknown.status).toBe(400);
    expect(await unknown.json()).toEqual({
      error: expect.stringContaining('die_after_tokens, hang, refuse'),
    });
    const bad = await control(url, 'faults', { hang: 'yes', refuse: true });
    expect(await bad.json()).toEqual({ error: 'fault hang: expected true or false, got "yes"' });
    expect(await (await fetch(`${url}/simulator/faults`)).json()).toMatchObject({ refuse: false });
  });

  it('die_after_tokens ends a simulator in this process too', async () => {
    const simulator = await start();
    await control(simulator.url, 'faults', { die_after_tokens: 5 });
    const { events } = await readEvents(await chat(simulator.url, longStream));
    expect(events.at(-1)).toEqual(ENGINE_DEAD);
    expect(await simulator.ended).toBe(0);
  });
});

describe('usage of the simulator', () => {
  const asked = async (url: string, end: string, more: object = {}) => {
    const messages = [{ role: 'user', content: `${'a long beginning '.repeat(80)} ${end}` }];
    const response = await chat(url, { messages, max_tokens: 1, ...more });
    return ((await response.json()) as { usage: object }).usage;
  };
  const cached = (tokens: number) => ({ prompt_tokens_details: { cached_tokens: tokens } });

  it('says how much of a prompt it had computed before, in blocks', async () => {
    const { url, child } = await readySimulator('--enable-prompt-tokens-details');
    expect(await asked(url, 'one')).toMatchObject({ prompt_tokens: 345, ...cached(0) });
    expect(await asked(url, 'two')).toMatchObject(cached(256));
    expect(await asked(url, 'two', { cache_salt: 'another' })).toMatchObject(cached(0));
    await child.stop();
  });

  it('says nothing of it unless it is told to', async () => {
    const { url, child } = await readySimulator();
    for (const end of ['one', 'two']) {
      expect(await asked(url, end)).toMatchObject({ prompt_tokens_details: null });
    }
    await child.stop();
  });
});

describe('the simulator in this process', () => {
  it('keeps the pace it is set to while it runs', async () => {
    const { url, close } = await startSimulator({ interTokenLatencyMs: 60_000 });
    const answer = readEvents(await chat(url, { ...longStream, max_tokens: 50 }));
    await until(async () => (await gauge(url, 'generation_tokens_total')) === 1, 'the first token is made');
    await control(url, 'pace', { inter_token_latency_ms: 0 });
    expect((await answer).done).toBe(true);
    await close();
  });

  it('guards /v1 with its keys and nothing else', async () => {
    const { url, close } = await startSimulator({ apiKey: ['sk-one'] });
    const refused = await fetch(`${url}/v1/models`);
    expect(refused.status).toBe(401);
    expect(await refused.json()).toEqual({ error: 'Unauthorized' });
    expect((await fetch(`${url}/metrics`)).status).toBe(200);
    expect((await chat(url, { max_tokens: 1 }, { headers: { authorization: 'Bearer sk-one' } })).status).toBe(
      200,
    );
    await close();
  });

  it('serves 256 streams at once, each whole', async () => {
    const { url, close } = await startSimulator();
    const body = { ...longStream, max_tokens: 200, stream_options: { include_usage: true } };
    const streams = await Promise.all(
      Array.from({ length: 256 }, async (_, seed) => readEvents(await chat(url, { ...body, seed }))),
    );
    for (const { events, done } of streams) {
      expect(done).toBe(true);
      expect(events.at(-1)).toMatchObject({ usage: { completion_tokens: 200 } });
    }
    await close();
  });

  it('keeps the tokens of a reader who does not read, and gives them all in the end', async () => {
    const { url, close } = await startSimulator();
    const allGenerated = () =>
      until(async () => (await gauge(url, 'generation_tokens_total')) === 30_000, 'all is generated');
    const text = await rawChat(url, longStream, allGenerated);
    expect(text.match(/"token_ids":null/g)).toHaveLength(30_000);
    expect(text).toContain('data: [DONE]');
    await close();
  });
});
