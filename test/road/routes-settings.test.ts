import { request } from 'node:http';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ANSWERED_FIRST } from '../support/raw-worker.ts';
import { type QueueProcess, readyWorker, startQueue, tearDown, type WorkerProcess } from '../support/road.ts';

/** What an operator can say about routes, models, hosts and sizes. */
const MIB = 1024 * 1024;
const MOST = 24 * MIB;
let queue: QueueProcess;
let worker: WorkerProcess;

beforeAll(async () => {
  queue = await startQueue({
    env: {
      QUEUE_MAX_BODY_BYTES: String(MOST),
      QUEUE_LOCAL_HOSTS: 'host.docker.internal',
      INFERENCE_ROUTES: '+POST /v1/ocr, -POST /invocations, +GET /load',
    },
  });
  worker = await readyWorker(queue.url, 'w', { env: { INFERENCE_ROUTES: '+GET /load' } });
  await readyWorker(queue.url, 'other', {
    env: { CASOLA_CONFIG_ID: 'second', VLLM_MODEL: 'small', VLLM_SERVED_MODEL_NAME: 'small' },
  });
});
afterAll(tearDown);

function post(path: string, body: string | Uint8Array<ArrayBuffer>, type = 'application/json') {
  const headers = { 'content-type': type, ...ANSWERED_FIRST };
  return fetch(queue.url + path, { method: 'POST', headers, body });
}

/** Asks under another name for this machine. */
function statusUnder(host: string): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const asked = request(`${queue.url}/v1/models`, { headers: { host } }, (response) => {
      response.resume();
      resolve(response.statusCode);
    });
    asked.on('error', reject).end();
  });
}

describe('the list of routes', () => {
  it('can be longer, for the queue and for a worker', async () => {
    expect((await fetch(`${queue.url}/load?model=tiny`)).status).toBe(200);
    const refused = await fetch(`${queue.url}/load?model=small`, { headers: ANSWERED_FIRST });
    expect([refused.status, await refused.text()]).toEqual([
      400,
      expect.stringContaining('no inference route'),
    ]);
    expect((await post('/v1/ocr?model=tiny', new Uint8Array([1, 255]), 'image/png')).status).toBe(400);
  });

  it('can be shorter', async () => {
    expect((await post('/invocations', '{"model":"tiny","prompt":"a"}')).status).toBe(404);
  });
});

describe('several models', () => {
  it('need no name for what any engine can answer', async () => {
    for (const path of ['/version', '/ping']) expect((await fetch(queue.url + path)).status).toBe(200);
  });

  it('need one for anything else', async () => {
    const response = await post('/tokenize', '{"prompt":"a"}');
    expect([response.status, await response.text()]).toEqual([400, expect.stringContaining('tiny')]);
    expect((await post('/tokenize', '{"prompt":"a","model":"small"}')).status).toBe(200);
  });
});

describe('a large body', () => {
  const ask = (url: string, bytes: number) => {
    const body = JSON.stringify({ model: 'tiny', input: 'x'.repeat(bytes) });
    const headers = { 'content-type': 'application/json' };
    return fetch(`${url}/v1/audio/speech`, { method: 'POST', headers, body });
  };

  it('passes up to the limit that is set', async () => {
    const response = await ask(queue.url, MOST - 100);
    expect(response.status).toBe(200);
    const direct = await ask(worker.engineUrl, MOST - 100);
    expect(Buffer.from(await response.arrayBuffer()).equals(Buffer.from(await direct.arrayBuffer()))).toBe(
      true,
    );
  });

  it('is refused beyond it, and told how to change it', async () => {
    const response = await ask(queue.url, MOST);
    expect([response.status, await response.text()]).toEqual([
      413,
      expect.stringMatching(/24 MiB.*QUEUE_MAX_BODY_BYTES/),
    ]);
  });
});

describe('a queue without tokens', () => {
  it('may be called by the names of this machine', async () => {
    expect(await statusUnder(`0.0.0.0:${queue.port}`)).toBe(200);
    expect(await statusUnder(`host.docker.internal:${queue.port}`)).toBe(200);
    expect(await statusUnder('somewhere.example')).toBe(403);
  });
});
