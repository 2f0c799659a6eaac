import { describe, expect, it } from 'vitest';
import { type Bucket, TextCalls } from '../../../src/queue/object/text-calls.ts';
import { BUCKET_UNREADABLE, type SubmitJob, unpackView } from '../../../src/queue/rpc.ts';
import { until } from '../../support/poll.ts';
import { type FakeConnection, QueueHarness, ticketOf } from '../../support/queue-harness.ts';

/** A bucket in memory that a test can break or hold up. */
class MemoryBucket implements Bucket {
  readonly objects = new Map<string, Uint8Array>();
  isBroken = false;
  /** Puts begin, and deletions are answered, when these are over. */
  held: Promise<void> = Promise.resolve();
  answered: Promise<void> = Promise.resolve();

  async put(key: string, bytes: Uint8Array): Promise<void> {
    await this.held;
    this.#check();
    this.objects.set(key, bytes);
  }
  async get(key: string): Promise<{ arrayBuffer(): Promise<ArrayBuffer> } | null> {
    this.#check();
    const bytes = this.objects.get(key);
    return bytes ? { arrayBuffer: async () => bytes.slice().buffer as ArrayBuffer } : null;
  }
  async delete(keys: string[]): Promise<void> {
    this.#check();
    for (const key of keys) this.objects.delete(key);
    await this.answered;
  }
  #check(): void {
    if (this.isBroken) throw new Error('the bucket is away');
  }
}

const LARGE = JSON.stringify({ messages: [], text: '🙂'.repeat(400_000) });
const RESULT = JSON.stringify({ status: 'success', text: 'ö'.repeat(700_000) });
const bytesOf = (text: string) => new TextEncoder().encode(text) as Uint8Array<ArrayBuffer>;

/** The calls with texts over the real rules, as the object makes them. */
class Stage extends QueueHarness {
  bucket: MemoryBucket | null = new MemoryBucket();
  readonly logged: string[] = [];

  get texts(): TextCalls {
    return new TextCalls({
      queue: this.queue,
      bucket: this.bucket,
      prefix: 'q',
      commit: async (work) => work(),
      submit: async (_, work) => work(),
      log: (_, message) => this.logged.push(message),
    });
  }

  send(job: Partial<SubmitJob> = {}) {
    const sent = {
      id: 'j',
      job_type: 'chat_completion' as const,
      config_id: 'cfg',
      priority: 0,
      max_attempts: 3,
      payload: LARGE,
      ...job,
    };
    return this.texts.submit([sent], ['unused']);
  }

  /** Time passes, and what alarms want deleted is deleted. */
  async pass(seconds: number): Promise<void> {
    this.advance(seconds);
    for (const deletion of this.deletions.splice(0)) await this.texts.delete(deletion);
  }

  upload(worker: FakeConnection, text = RESULT) {
    return this.texts.storeFile(ticketOf(worker.lastJob().result_upload_url), bytesOf(text));
  }

  announce(worker: FakeConnection): void {
    const { job_id, fence_token } = worker.lastJob();
    this.say(worker, { type: 'job_result_ref', job_id, fence_token });
  }

  async payload(worker: FakeConnection, form: 'own' | 'base' = 'own'): Promise<unknown> {
    const answer = await this.texts.readFile(ticketOf(worker.lastJob().payload_url), form);
    return answer.ok ? JSON.parse(new TextDecoder().decode(answer.bytes)) : answer;
  }

  async result(): Promise<unknown> {
    return unpackView((await this.texts.withResult(this.queue.read('get', 'j', null)))!).result;
  }

  /** Objects in the bucket, keys the rules know of, and pieces of text in rows. */
  held(): { objects: number; keys: number; rows: number } {
    const count = (table: string) =>
      Number(this.database.prepare(`SELECT count(*) AS n FROM ${table}`).get()?.n);
    const rows = count('long_texts') + count('uploads');
    return { objects: this.bucket?.objects.size ?? 0, keys: count('bucket_files'), rows };
  }
}

describe('a bucket', () => {
  it('takes long payloads and results, which are forgotten with their job', async () => {
    const stage = new Stage({ retention_seconds: 60 });
    const worker = stage.worker('w');
    expect(await stage.send()).toMatchObject([{ ok: true, created: true }]);
    expect(await stage.payload(worker)).toEqual(JSON.parse(LARGE));
    expect(await stage.upload(worker)).toEqual({ ok: true });
    expect(stage.held()).toEqual({ objects: 2, keys: 2, rows: 0 });
    stage.announce(worker);
    expect(worker.frames('ack')).toMatchObject([{ outcome: 'accepted' }]);
    expect(await stage.result()).toEqual(JSON.parse(RESULT));
    stage.restart();
    expect(await stage.result()).toEqual(JSON.parse(RESULT));
    expect(await stage.upload(worker)).toEqual({ ok: false, reason: 'stale' });
    expect(stage.held()).toEqual({ objects: 2, keys: 2, rows: 0 });
    await stage.pass(59);
    expect(stage.held()).toEqual({ objects: 2, keys: 2, rows: 0 });
    await stage.pass(2);
    expect(stage.held()).toEqual({ objects: 0, keys: 0, rows: 0 });
  });

  it('is not asked for what fits a row', async () => {
    const stage = new Stage();
    stage.bucket!.isBroken = true;
    const worker = stage.worker('w');
    await stage.send({ payload: JSON.stringify({ text: 'x'.repeat(400_000) }) });
    await stage.upload(worker, JSON.stringify({ text: 'y'.repeat(400_000) }));
    stage.announce(worker);
    expect(await stage.result()).toEqual({ text: 'y'.repeat(400_000) });
    expect(stage.logged).toEqual([]);
  });

  it('that takes nothing loses nothing: the texts are stored in rows', async () => {
    const stage = new Stage();
    stage.bucket!.isBroken = true;
    const worker = stage.worker('w');
    expect(await stage.send()).toMatchObject([{ ok: true, created: true }]);
    expect(await stage.send()).toMatchObject([{ ok: true, created: false }]);
    expect(await stage.payload(worker)).toEqual(JSON.parse(LARGE));
    expect(await stage.upload(worker)).toEqual({ ok: true });
    stage.announce(worker);
    expect(await stage.result()).toEqual(JSON.parse(RESULT));
    expect(stage.logged).toHaveLength(2);
    // Something may have arrived there all the same.
    expect(stage.held().keys).toBe(2);
    stage.bucket!.isBroken = false;
    await stage.pass(1);
    expect(stage.held()).toMatchObject({ objects: 0, keys: 0 });
  });

  it('that does not delete is asked again a minute later', async () => {
    const stage = new Stage();
    const worker = stage.worker('w');
    await stage.send({ payload: '{}' });
    await stage.upload(worker);
    stage.queue.do('cancel', 'j', 'cancelled', null);
    stage.bucket!.isBroken = true;
    await stage.pass(1);
    expect(stage.held()).toEqual({ objects: 1, keys: 1, rows: 0 });
    expect(stage.logged).toHaveLength(1);
    stage.bucket!.isBroken = false;
    await stage.pass(50);
    expect(stage.held().objects).toBe(1);
    await stage.pass(20);
    expect(stage.held()).toEqual({ objects: 0, keys: 0, rows: 0 });
  });

  it('that has lost something says so', async () => {
    const stage = new Stage();
    const worker = stage.worker('w');
    await stage.send();
    await stage.upload(worker);
    stage.bucket!.objects.clear();
    await expect(stage.payload(worker)).rejects.toThrow(/lost .* the payload of job j/);
    stage.announce(worker);
    await expect(stage.result()).rejects.toThrow(/lost .* the result of job j/);
    stage.bucket = null;
    await expect(stage.result()).rejects.toThrow(BUCKET_UNREADABLE);
    expect(stage.logged).toEqual(['the bucket cannot be read']);
  });
});

describe('a submission', () => {
  it('under a known id answers its job, or a conflict when its payload is another', async () => {
    const stage = new Stage();
    const worker = stage.worker('w');
    await stage.send();
    await stage.upload(worker);
    stage.announce(worker);
    await stage.pass(4000);
    const [again] = await stage.send();
    expect(again).toMatchObject({ ok: true, created: false });
    expect(again?.ok && unpackView(again.job).result).toEqual(JSON.parse(RESULT));
    expect(await stage.send({ payload: LARGE.replace('🙂', '🙃') })).toMatchObject([{ reason: 'conflict' }]);
    expect(await stage.send({ payload: '{}' })).toMatchObject([{ reason: 'conflict' }]);
    expect(stage.held()).toEqual({ objects: 2, keys: 2, rows: 0 });
  });

  it('made twice at once is one job, and leaves one payload', async () => {
    const stage = new Stage();
    const { promise, resolve } = Promise.withResolvers<void>();
    stage.bucket!.held = promise;
    const sending = Promise.all([stage.send(), stage.send()]);
    await until(() => stage.held().keys === 2, 'the key is noted');
    resolve();
    const answers = (await sending).flat();
    expect(answers.map((answer) => answer.ok && answer.created).sort()).toEqual([false, true]);
    expect(stage.held().objects).toBe(2);
    await stage.pass(1);
    expect(stage.held()).toEqual({ objects: 1, keys: 1, rows: 0 });
    expect(await stage.payload(stage.worker('w'))).toEqual(JSON.parse(LARGE));
  });

  it('that is refused puts nothing there', async () => {
    const stage = new Stage({ max_pending: 1 });
    await stage.send();
    expect(await stage.send({ id: 'k' })).toMatchObject([{ reason: 'queue_full' }]);
    expect(stage.held()).toEqual({ objects: 1, keys: 1, rows: 0 });
  });

  it('that the object did not live to see leaves nothing', async () => {
    const stage = new Stage();
    const { promise, resolve } = Promise.withResolvers<void>();
    stage.bucket!.held = promise;
    void stage.send();
    await Promise.resolve();
    await until(() => stage.held().keys === 1, 'the key is noted');
    const { bucket } = stage;
    stage.restart();
    // The put was on its way, but what it was for is gone.
    bucket!.objects.set(
      String(stage.database.prepare('SELECT key FROM bucket_files').get()?.key),
      bytesOf(''),
    );
    await stage.pass(3590);
    expect(stage.held()).toMatchObject({ objects: 1, keys: 1 });
    await stage.pass(20);
    expect(stage.held()).toMatchObject({ objects: 0, keys: 0 });
    expect(stage.queue.read('get', 'j', null)).toBeNull();
    // Nor does a put that took longer than any request lives: its payload is stored in rows.
    resolve();
    await until(() => stage.state('j') === 'pending', 'the job is stored');
    expect(stage.held()).toMatchObject({ objects: 1, keys: 1, rows: 2 });
    await stage.pass(1);
    expect(stage.held()).toMatchObject({ objects: 0, keys: 0 });
  });

  it('whose payload is put while its key is being deleted is stored in rows', async () => {
    const stage = new Stage();
    const put = Promise.withResolvers<void>();
    const deletion = Promise.withResolvers<void>();
    stage.bucket!.held = put.promise;
    stage.bucket!.answered = deletion.promise;
    const sending = stage.send();
    await until(() => stage.held().keys === 1, 'the key is noted');
    stage.advance(3601);
    const deleting = stage.texts.delete(stage.deletions.splice(0).at(-1)!);
    put.resolve();
    expect(await sending).toMatchObject([{ ok: true, created: true }]);
    deletion.resolve();
    await deleting;
    expect(await stage.payload(stage.worker('w'))).toEqual(JSON.parse(LARGE));
    expect(stage.held()).toEqual({ objects: 1, keys: 1, rows: 2 });
    await stage.pass(61);
    expect(stage.held()).toEqual({ objects: 0, keys: 0, rows: 2 });
  });

  it('fetched by a base worker has its form, and one that it cannot run is never given to it', async () => {
    const stage = new Stage();
    const worker = stage.baseWorker('old');
    await stage.send();
    expect(worker.lastJob()).toMatchObject({ payload: {}, payload_url: expect.stringMatching(/^https:/) });
    const { text } = JSON.parse(LARGE);
    const expected = { task: 'openai/chat-completion', messages: [], text };
    expect(await stage.payload(worker, 'base')).toEqual(expected);
    stage.queue.do('cancel', 'j', 'cancelled', null);
    const request = (path: string) => JSON.stringify({ method: 'POST', path, body: LARGE });
    const engine = { job_type: 'engine_request' as const };
    await stage.send({ ...engine, id: 'k', payload: request('/v1/chat/completions') });
    expect(await stage.payload(worker, 'base')).toEqual(expected);
    stage.queue.do('cancel', 'k', 'cancelled', null);
    await stage.send({ ...engine, id: 'l', payload: request('/v1/rerank') });
    expect(worker.lastJob().job_id).toBe('k');
    expect(stage.queue.read('get', 'l', null)).toMatchObject({
      state: 'failed',
      error: { code: 'unsupported_by_worker' },
    });
  });
});

describe('an upload', () => {
  it('that is over when it is put is stale, and deleted', async () => {
    const stage = new Stage();
    const worker = stage.worker('w');
    await stage.send({ payload: '{}' });
    const { promise, resolve } = Promise.withResolvers<void>();
    stage.bucket!.held = promise;
    const uploading = stage.upload(worker);
    await until(() => stage.held().keys === 1, 'the key is noted');
    stage.queue.do('cancel', 'j', 'cancelled', null);
    resolve();
    expect(await uploading).toEqual({ ok: false, reason: 'stale' });
    expect(stage.held().objects).toBe(1);
    await stage.pass(1);
    expect(stage.held()).toEqual({ objects: 0, keys: 0, rows: 0 });
  });

  it('that took longer to be put than any request lives is stored in rows', async () => {
    const stage = new Stage();
    const worker = stage.worker('w');
    await stage.send({ payload: '{}' });
    stage.say(worker, { type: 'pause' });
    const { promise, resolve } = Promise.withResolvers<void>();
    stage.bucket!.held = promise;
    const uploading = stage.upload(worker);
    await until(() => stage.held().keys === 1, 'the key is noted');
    await stage.pass(3601);
    expect(stage.held().keys).toBe(0);
    resolve();
    expect(await uploading).toEqual({ ok: true });
    await stage.pass(1);
    expect(stage.held()).toEqual({ objects: 0, keys: 0, rows: 2 });
    stage.announce(worker);
    expect(await stage.result()).toEqual(JSON.parse(RESULT));
  });

  it('that is not announced goes when its job is settled otherwise; a newer one takes its place', async () => {
    const stage = new Stage();
    const worker = stage.worker('w');
    await stage.send({ payload: '{}' });
    await stage.upload(worker);
    await stage.upload(worker, RESULT.replace('success', 'second'));
    await stage.pass(1);
    expect(stage.held()).toEqual({ objects: 1, keys: 1, rows: 0 });
    const { job_id, fence_token } = worker.lastJob();
    stage.say(worker, { type: 'job_result', job_id, fence_token, result: { a: 1 } });
    expect(await stage.result()).toEqual({ a: 1 });
    await stage.pass(1);
    expect(stage.held()).toEqual({ objects: 0, keys: 0, rows: 0 });
  });

  it('of an attempt whose job was given away cannot settle another attempt', async () => {
    const stage = new Stage();
    const first = stage.worker('first');
    await stage.send({ payload: '{}' });
    await stage.upload(first);
    stage.drop(first);
    const second = stage.worker('second');
    await stage.pass(20);
    expect(second.lastJob().job_id).toBe('j');
    expect(await stage.upload(first)).toEqual({ ok: false, reason: 'stale' });
    stage.announce(second);
    expect(stage.queue.read('get', 'j', null)).toMatchObject({ state: 'pending', attempts: 2 });
    stage.queue.do('cancel', 'j', 'cancelled', null);
    await stage.pass(1);
    expect(stage.held()).toEqual({ objects: 0, keys: 0, rows: 0 });
  });
});
