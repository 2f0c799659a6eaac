import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { until } from '../support/poll.ts';
import { type QueueProcess, readyWorker, startQueue, tearDown, type WorkerProcess } from '../support/road.ts';

/** Responses that an engine keeps are asked for at the worker that has them. */
let queue: QueueProcess;
let workers: WorkerProcess[];

beforeAll(async () => {
  queue = await startQueue({ env: { QUEUE_RECONNECT_GRACE_SECONDS: '1' } });
  workers = await Promise.all(
    ['a', 'b'].map((id) => readyWorker(queue.url, id, { engineArgs: '--inter-token-latency-ms 5' })),
  );
});
afterAll(tearDown);

interface Kept {
  id: string;
  status: string;
  error?: { message: string; code: string };
}

async function ask(method: string, path: string, body?: object, base = queue.url) {
  const response = await fetch(base + path, {
    method,
    ...(body && { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
  });
  return { status: response.status, text: await response.text() };
}

async function make(more: object = {}): Promise<Kept> {
  const { text } = await ask('POST', '/v1/responses', {
    model: 'tiny',
    input: 'hello',
    max_output_tokens: 4,
    ...more,
  });
  return JSON.parse(text.startsWith('event:') ? '{}' : text) as Kept;
}

/** The worker whose engine has it. */
async function holderOf(id: string): Promise<WorkerProcess> {
  for (const worker of workers) {
    if ((await ask('GET', `/v1/responses/${id}`, undefined, worker.engineUrl)).status === 200) return worker;
  }
  throw new Error(`no engine has ${id}`);
}

describe('a response that an engine keeps', () => {
  it('is found again, whichever worker made it, as it is there', async () => {
    const made = await Promise.all(Array.from({ length: 6 }, () => make()));
    const holders = await Promise.all(made.map(({ id }) => holderOf(id)));
    expect(new Set(holders.map(({ id }) => id)).size).toBe(2);
    for (const [at, { id }] of made.entries()) {
      const through = await ask('GET', `/v1/responses/${id}`);
      const direct = await ask('GET', `/v1/responses/${id}`, undefined, holders[at]!.engineUrl);
      expect(through).toEqual(direct);
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

  it('is cancelled where it is made in the background', async () => {
    const made = await Promise.all(
      [1, 2, 3].map(() => make({ background: true, max_output_tokens: 20_000, ignore_eos: true })),
    );
    for (const { id } of made) {
      const { status, text } = await ask('POST', `/v1/responses/${id}/cancel`);
      expect([status, (JSON.parse(text) as Kept).status]).toEqual([200, 'cancelled']);
    }
  });

  it('is unknown where it was never made, or is not to be kept', async () => {
    const missing = await ask('GET', '/v1/responses/resp_none');
    expect([missing.status, missing.text]).toEqual([404, expect.stringContaining('response_not_found')]);
    const { id } = await make({ store: false });
    expect((await ask('GET', `/v1/responses/${id}`)).status).toBe(404);
  });

  it('is gone with its worker, and that is said', async () => {
    const { id } = await make();
    const holder = await holderOf(id);
    holder.process.kill('SIGKILL');
    const gone = await until(async () => {
      const answer = await ask('GET', `/v1/responses/${id}`);
      return answer.status === 404 ? answer : null;
    }, 'the worker is known to be gone');
    expect(gone.text).toMatch(new RegExp(`the worker \\\\"${holder.id}\\\\".*not connected any more`));
    expect((await make()).status).toBe('incomplete');
  });
});

it('a worker cannot be asked for by name', async () => {
  expect((await ask('POST', '/v1/completions', { model: '\0a', prompt: 'x' })).status).toBe(400);
  expect((await ask('GET', '/version?model=%00a')).status).toBe(400);
});
