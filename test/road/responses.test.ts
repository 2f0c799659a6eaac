import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { childrenOf, commandLine, signal } from '../soak/proc.ts';
import { until } from '../support/poll.ts';
import {
  engineRunning,
  type QueueProcess,
  readyWorker,
  setPace,
  startQueue,
  tearDown,
  type WorkerProcess,
} from '../support/road.ts';

/** Responses are stored by the queue, whichever worker makes them. */
let queue: QueueProcess;
let workers: WorkerProcess[];

beforeAll(async () => {
  queue = await startQueue({ env: { QUEUE_RECONNECT_GRACE_SECONDS: '1' } });
  workers = await Promise.all(
    ['a', 'b'].map((id) => readyWorker(queue.url, id, { engineArgs: '--inter-token-latency-ms 5' })),
  );
});
afterAll(tearDown);

interface Made {
  id: string;
  status: string;
}

async function ask(method: string, path: string, body?: object) {
  const response = await fetch(queue.url + path, {
    method,
    ...(body && { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
  });
  return { status: response.status, text: await response.text() };
}

async function make(more: object = {}): Promise<Made> {
  const { text } = await ask('POST', '/v1/responses', {
    model: 'tiny',
    input: 'hello',
    max_output_tokens: 4,
    ...more,
  });
  return JSON.parse(text) as Made;
}

describe('a response', () => {
  it('is found again, whichever worker made it, as its caller read it', async () => {
    const made = await Promise.all(Array.from({ length: 6 }, () => make()));
    for (const response of made) {
      const { status, text } = await ask('GET', `/v1/responses/${response.id}`);
      expect([status, JSON.parse(text)]).toEqual([200, response]);
    }
  });

  it('is found when it was streamed', async () => {
    const { text } = await ask('POST', '/v1/responses', {
      model: 'tiny',
      input: 'hi',
      max_output_tokens: 4,
      stream: true,
    });
    const [, id] = /"id":"(resp_[^"]+)"/.exec(text)!;
    expect((await ask('GET', `/v1/responses/${id}`)).status).toBe(200);
  });

  it('is unknown where it was never made, or is not to be stored', async () => {
    const missing = await ask('GET', '/v1/responses/resp_none');
    expect([missing.status, missing.text]).toEqual([404, expect.stringContaining('response_not_found')]);
    const { id } = await make({ store: false });
    expect((await ask('GET', `/v1/responses/${id}`)).status).toBe(404);
  });

  it('is still there when the worker that made it is gone', async () => {
    const made = await Promise.all(Array.from({ length: 6 }, () => make()));
    workers[0]!.process.kill('SIGKILL');
    await until(async () => (await make()).status === 'incomplete', 'the other worker answers');
    for (const { id } of made) expect((await ask('GET', `/v1/responses/${id}`)).status).toBe(200);
  });
});

describe('a stream that its caller waits for', () => {
  const begin = async () => {
    await setPace(workers[1]!.engineUrl, 50);
    const body = { model: 'tiny', input: 'hi', max_output_tokens: 20_000, ignore_eos: true, stream: true };
    const response = await fetch(`${queue.url}/v1/responses`, { method: 'POST', body: JSON.stringify(body) });
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    let text = '';
    const read = async (goesOn: () => boolean) => {
      while (goesOn()) {
        const { value, done } = await reader.read();
        if (done) break;
        text += value;
      }
      return text;
    };
    await read(() => text.split('output_text.delta"').length < 6);
    const [, id] = /"id":"(resp_[^"]+)"/.exec(text)!;
    return { id: id!, reader, read };
  };

  it('is cancelled when the caller leaves, and then not found', async () => {
    const { id, reader } = await begin();
    await reader.cancel();
    await until(async () => (await engineRunning(workers[1]!.engineUrl)) === 0, 'the engine has stopped');
    expect(await ask('GET', `/v1/responses/${id}`)).toMatchObject({ status: 404 });
  });

  it('has failed when its worker dies, and keeps what was said', async () => {
    const { id, read } = await begin();
    const { pid } = workers[1]!.process;
    signal(childrenOf(pid).find((child) => commandLine(child).includes('programs/worker.js'))!, 'SIGKILL');
    const text = await read(() => true);
    const last = JSON.parse(/event: response.failed\ndata: (.*)\n\n$/.exec(text)![1]!).response;
    expect(last).toMatchObject({ id, status: 'failed', error: { code: 'server_error' } });
    const deltas = [...text.matchAll(/"delta": ?("(?:[^"\\]|\\.)*")/g)];
    const said = deltas.map(([, delta]) => JSON.parse(delta!)).join('');
    expect(said).not.toBe('');
    expect(last.output).toMatchObject([{ status: 'incomplete', content: [{ text: said }] }]);
    expect(JSON.parse((await ask('GET', `/v1/responses/${id}`)).text)).toEqual(last);
  });
});

it('a model has no control characters in its name', async () => {
  expect((await ask('POST', '/v1/completions', { model: '\0a', prompt: 'x' })).status).toBe(400);
  expect((await ask('GET', '/version?model=%00a')).status).toBe(400);
});
