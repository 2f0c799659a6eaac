import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { JobView } from '../../src/protocol/index.ts';
import { type MiniflareQueue, startMiniflareQueue } from '../support/miniflare-queue.ts';
import { until } from '../support/poll.ts';
import { closeRawWorkers, type JobFrame, RawWorker } from '../support/raw-worker.ts';

/** Long payloads and results in a bucket, over HTTP, in the runtime and the R2 that wrangler simulates. */
const TOKEN = 'secret';
const SHA256 = '2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b';
const HEADERS = { authorization: `Bearer ${TOKEN}` };
const MIB = 1024 * 1024;
const TEXT = `🙂${'x'.repeat(5 * MIB)}`;
const RESULT = JSON.stringify({ value: `🙂${'y'.repeat(5 * MIB)}` });
let queue: MiniflareQueue;

beforeAll(async () => {
  const tokens = [{ name: 'all', sha256: SHA256, scopes: ['admin'] }];
  queue = await startMiniflareQueue({ TOKENS: JSON.stringify(tokens), RETENTION_SECONDS: '3600' });
});
afterEach(closeRawWorkers);
afterAll(() => queue.stop());

async function worker(id: string, more = {}): Promise<RawWorker> {
  return await (await new RawWorker(queue.url, TOKEN).connect(id)).register('w', more);
}

async function submit(id: string, text = TEXT, more = {}): Promise<{ status: number; job: JobView }> {
  const job = { id: 'j', job_type: 'chat_completion', config_id: 'cfg', payload: { messages: [], text } };
  const body = JSON.stringify({ ...job, ...more });
  const response = await fetch(`${queue.url}/api/jobs?queue_id=${id}`, {
    method: 'POST',
    headers: HEADERS,
    body,
  });
  return { status: response.status, job: (await response.json()) as JobView };
}

async function job(id: string, method = 'GET', query = ''): Promise<JobView> {
  const url = `${queue.url}/api/jobs/j?queue_id=${id}${query}`;
  return (await (await fetch(url, { method, headers: HEADERS })).json()) as JobView;
}

function addressOf(frame: JobFrame, what: 'payload_url' | 'result_upload_url'): string {
  return new URL(String(frame[what]), `${queue.url}/`).href;
}

async function put(frame: JobFrame): Promise<number> {
  const response = await fetch(addressOf(frame, 'result_upload_url'), { method: 'PUT', body: RESULT });
  await response.text();
  return response.status;
}

/** Characters of payloads and results that lie in rows of the queue. */
async function inRows(id: string): Promise<unknown> {
  const [row] = await queue.sql(
    id,
    `SELECT coalesce(sum(length(payload)), 0) + coalesce(sum(length(result)), 0) AS n FROM jobs`,
  );
  return row?.n;
}

const inBucket = (files: number) =>
  until(async () => (await queue.keys()).length === files, `${files} files are in the bucket`);

/** Everything settled so far is as old as its retention time, the queue looks, and so does the object of its files. */
async function letRetentionPass(id: string): Promise<void> {
  await queue.sql(id, 'UPDATE jobs SET settled_at = 1 WHERE settled_at IS NOT NULL');
  await submit(id, 'hello', { id: 'later', config_id: 'nobody', deadline_seconds: 1 });
  const jobs = () => queue.sql(id, `SELECT id FROM jobs WHERE id = 'j'`);
  await until(async () => (await jobs()).length === 0, 'the job is forgotten');
  await letFilesAsk(id);
}

/** The time of all files of jobs is over: any other that comes sets the alarm. */
async function letFilesAsk(id: string): Promise<void> {
  await queue.filesSql(id, 'UPDATE files SET expires_at = 1');
  await submit(id, TEXT, { id: `asks-${crypto.randomUUID()}`, config_id: 'nobody' });
}

describe.each([
  ['an extended worker', 'extended', {}],
  ['a worker that speaks only the base', 'base', { base: true }],
])('with %s', (_, id, more) => {
  it('5 MiB each way go through the bucket, and no row holds any of it', async () => {
    const played = await worker(id, more);
    expect((await submit(id)).status).toBe(201);
    const frame = await played.job();
    expect(frame.payload).toEqual({});
    const payload = (await (await fetch(addressOf(frame, 'payload_url'))).json()) as { text: string };
    expect(payload.text === TEXT).toBe(true);
    await inBucket(1);
    expect((await submit(id)).status).toBe(200);
    expect((await submit(id, `${TEXT}!`)).status).toBe(409);
    await inBucket(1);

    const waiting = job(id, 'GET', '&wait=30');
    expect(await put(frame)).toBe(201);
    played.send({ type: 'job_result_ref', job_id: 'j', fence_token: frame.fence_token });
    for (const view of [await waiting, await job(id), (await submit(id)).job, await job(id, 'DELETE')]) {
      expect(view.state).toBe('succeeded');
      expect(JSON.stringify(view.result) === RESULT).toBe(true);
    }
    expect(await put(frame)).toBe(409);
    await inBucket(2);
    expect(await inRows(id)).toBe(0);

    await letRetentionPass(id);
    // That of the job which made the object of files look.
    await inBucket(1);
    await queue.clear();
  });
});

describe('an upload', () => {
  it('whose job is cancelled before it is announced ends by itself, and a late one is refused', async () => {
    const played = await worker('cancelled');
    await submit('cancelled', 'short');
    const frame = await played.job();
    expect(await put(frame)).toBe(201);
    await inBucket(1);
    await job('cancelled', 'DELETE');
    expect(await put(frame)).toBe(409);
    await letFilesAsk('cancelled');
    const [mine] = await queue.filesSql('cancelled', `SELECT count(*) AS n FROM files WHERE job = 'j'`);
    await until(
      async () => (await queue.filesSql('cancelled', `SELECT id FROM files WHERE job = 'j'`)).length === 0,
      `the ${mine?.n} files of the job are gone`,
    );
    await inBucket(1);
    await queue.clear();
  });
});

describe('a result', () => {
  it('cannot be read while the bucket is not bound, and says so', async () => {
    const played = await worker('unbound');
    await submit('unbound', 'short');
    const frame = await played.job();
    await put(frame);
    await inBucket(1);
    played.send({ type: 'job_result_ref', job_id: 'j', fence_token: frame.fence_token });
    await played.next('ack');
    await queue.bind(false);
    const unread = await fetch(`${queue.url}/api/jobs/j?queue_id=unbound`, { headers: HEADERS });
    expect(unread.status).toBe(503);
    expect(await unread.json()).toMatchObject({ error: { code: 'bucket_unreadable' } });
    await queue.bind(true);
    expect(JSON.stringify((await job('unbound')).result) === RESULT).toBe(true);
  });
});
