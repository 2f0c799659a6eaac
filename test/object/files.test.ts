import { describe, expect, it } from 'vitest';
import type { JobView } from '../../src/protocol/index.ts';
import { type JobFrame, RawWorker } from '../support/raw-worker.ts';
import { startTestQueue } from '../support/test-queue.ts';

/** Payloads and results by reference, over HTTP, in a real queue that asks for tokens. */
const TOKEN = 'secret';
const SHA256 = '2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b';
const MIB = 1024 * 1024;
let queueNumber = 0;
const road = startTestQueue({
  TOKENS: JSON.stringify([{ name: 'all', sha256: SHA256, scopes: ['admin'] }]),
  QUEUE_IDS: 'q*',
});

async function worker(queue: string, more = {}): Promise<RawWorker> {
  return await (await new RawWorker(road.url, TOKEN).connect(queue)).register('w', more);
}

async function submit(queue: string, text: string): Promise<void> {
  const job = { id: 'j', job_type: 'chat_completion', config_id: 'cfg', payload: { messages: [], text } };
  const headers = { 'x-queue-id': queue, authorization: `Bearer ${TOKEN}` };
  const response = await fetch(`${road.url}/api/jobs`, {
    method: 'POST',
    headers,
    body: JSON.stringify(job),
  });
  expect(response.status).toBe(201);
}

async function settled(queue: string): Promise<JobView> {
  const headers = { 'x-queue-id': queue, authorization: `Bearer ${TOKEN}` };
  return (await (await fetch(`${road.url}/api/jobs/j?wait=30`, { headers })).json()) as JobView;
}

/** The address as a worker uses it, and no token. */
function addressOf(job: JobFrame, what: 'payload_url' | 'result_upload_url'): string {
  return new URL(String(job[what]), `${road.url}/`).href;
}

async function put(address: string, body: string): Promise<number> {
  const response = await fetch(address, { method: 'PUT', body });
  await response.text();
  return response.status;
}

describe.each([
  ['an extended worker', 20, {}],
  ['a worker that speaks only the base', 2, { base: true }],
])('%s', (_, mib, more) => {
  it(`fetches and puts ${mib} MiB, without a token of its own`, async () => {
    const queue = `q${++queueNumber}`;
    // One character outside Latin-1 doubles what the runtime would hold of a text.
    const text = `🙂${'x'.repeat(mib * MIB - 1000)}`;
    const played = await worker(queue, more);
    await submit(queue, text);
    const job = await played.job();
    expect(job.payload).toEqual({});
    const payload = (await (await fetch(addressOf(job, 'payload_url'))).json()) as { text: string };
    expect(payload.text === text).toBe(true);

    const value = `🙂${'y'.repeat(mib * MIB - 100)}`;
    expect(await put(addressOf(job, 'result_upload_url'), JSON.stringify({ value }))).toBe(201);
    played.send({ type: 'job_result_ref', job_id: 'j', fence_token: job.fence_token });
    await played.next('base' in more ? 'job_result_ref' : 'ack');
    const view = await settled(queue);
    expect(view).toMatchObject({ state: 'succeeded', attempts: 1 });
    expect((view.result as { value: string }).value === value).toBe(true);
    expect(await put(addressOf(job, 'result_upload_url'), '{}')).toBe(409);
  });
});

describe('the addresses of files', () => {
  it('are useless without their key, and refuse what is no result or too large', async () => {
    const queue = `q${++queueNumber}`;
    const played = await worker(queue);
    await submit(queue, 'x'.repeat(MIB));
    const job = await played.job();
    const withoutKey = (address: string) => address.replace(/key=\w+/, 'key=0');
    const oneDigitOff = (address: string) => address.replace(/key=(\w+)(\w)/, (_, key) => `key=${key}x`);
    expect((await fetch(withoutKey(addressOf(job, 'payload_url')))).status).toBe(404);
    expect((await fetch(oneDigitOff(addressOf(job, 'payload_url')))).status).toBe(404);
    const upload = addressOf(job, 'result_upload_url');
    // Looked at first: what comes without the key is neither kept nor parsed.
    for (const body of ['{}', '[1]', JSON.stringify({ a: 'x'.repeat(20 * MIB) })]) {
      expect(await put(withoutKey(upload), body)).toBe(404);
    }
    expect(await put(upload.replace(/fence_token=\d+/, 'fence_token=x'), '{}')).toBe(400);
    expect(await put(upload, '[1]')).toBe(400);
    expect(await put(upload, '{"a":')).toBe(400);
    expect(await put(upload, JSON.stringify({ a: 'x'.repeat(20 * MIB) }))).toBe(413);
    expect((await fetch(upload)).status).toBe(405);
  });

  it('tell nobody without the key which jobs there are, or what became of them', async () => {
    const queue = `q${++queueNumber}`;
    const played = await worker(queue);
    await submit(queue, 'x'.repeat(MIB));
    const job = await played.job();
    const right = addressOf(job, 'payload_url');
    played.result(job);
    await played.next('ack');
    expect((await fetch(right)).status).toBe(409);
    const key = (text: string) => right.replace(/key=\w+/, `key=${text}`);
    const real = new URL(right).searchParams.get('key') as string;
    const another = `${real.slice(0, 32)}${'0'.repeat(64)}`;
    const wrong = [
      key('0'),
      key(''),
      key(another),
      key(another).replace('/jobs/j/', '/jobs/other/'),
      right.replace('/jobs/j/', '/jobs/other/'),
      right.replace(`queue_id=${queue}`, 'queue_id=q-other'),
      key('0').replace(`queue_id=${queue}`, 'queue_id=nowhere'),
    ];
    const answers = await Promise.all(
      wrong.map(async (address) => {
        const response = await fetch(address);
        return `${response.status} ${await response.text()}`;
      }),
    );
    expect(new Set(answers).size).toBe(1);
    expect(answers[0]).toMatch(/^404 .*"file_not_found"/);
  });

  it('name what the worker dialled, with the encryption that a proxy took off', async () => {
    const played = new RawWorker(road.url, TOKEN, { 'x-forwarded-proto': 'https', host: 'queue.example' });
    const queue = `q${++queueNumber}`;
    await (await played.connect(queue)).register('w', { base: true });
    await submit(queue, 'x'.repeat(MIB));
    expect((await played.job()).payload_url).toMatch(/^https:\/\/queue\.example\/jobs\/j\/payload\?/);
  });
});
