import OpenAI, { toFile } from 'openai';
import { describe, expect, it } from 'vitest';
import { until } from '../support/poll.ts';
import { startTestQueue } from '../support/test-queue.ts';
import { tokenEntry } from '../support/token-entry.ts';

/** Files as OpenAI's clients send and read them, on the runtime itself. */
const MIB = 1024 * 1024;
const tokens = [
  tokenEntry('secret', ['submit']),
  tokenEntry('other', ['submit']),
  tokenEntry('page', ['read']),
];
const road = startTestQueue({
  TOKENS: JSON.stringify(tokens),
  MAX_FILE_BYTES: String(3 * MIB),
});

let queues = 0;
/** A client with a queue of its own. */
function clientOf(token = 'secret', id = `files-${++queues}`) {
  const headers = { 'x-queue-id': id };
  return new OpenAI({ baseURL: `${road.url}/v1`, apiKey: token, defaultHeaders: headers, maxRetries: 0 });
}

const file = (text: string, name = 'in.jsonl') => toFile(new TextEncoder().encode(text), name);

/** What OpenAI's client for Python and curl send: fields first, with a length. */
async function uploadFieldsFirst(queue: string, fields: Record<string, string>, content: string) {
  const form = new FormData();
  for (const [name, value] of Object.entries(fields)) form.set(name, value);
  form.set('file', new Blob([content]), 'in.jsonl');
  const headers = { authorization: 'Bearer secret', 'x-queue-id': queue };
  const response = await fetch(`${road.url}/v1/files`, { method: 'POST', headers, body: form });
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
}

const batchLine = (custom_id: string) =>
  JSON.stringify({ custom_id, method: 'POST', url: '/v1/chat/completions', body: { model: 'tiny' } });

describe('a file', () => {
  it('comes back byte for byte, whatever its length', async () => {
    const client = clientOf();
    for (const length of [0, 1, MIB - 1, MIB, MIB + 1, 1.5 * MIB]) {
      const text = 'größer 🙂\r\n'.repeat(length / 8).slice(0, length);
      const made = await client.files.create({ file: await file(text), purpose: 'batch' });
      const bytes = new TextEncoder().encode(text).byteLength;
      expect(made).toMatchObject({ object: 'file', bytes, filename: 'in.jsonl', purpose: 'batch' });
      expect(await client.files.waitForProcessing(made.id)).toMatchObject({
        id: made.id,
        status: 'processed',
      });
      expect(await (await client.files.content(made.id)).text()).toBe(text);
    }
  });

  it('may have its fields before it, or be the body itself', async () => {
    const queue = `files-${++queues}`;
    const { status, body } = await uploadFieldsFirst(queue, { purpose: 'user_data' }, 'content');
    expect(status).toBe(200);
    expect(body).toMatchObject({ purpose: 'user_data', bytes: 7 });
    const headers = {
      authorization: 'Bearer secret',
      'x-queue-id': queue,
      'content-type': 'application/jsonl',
    };
    const address = `${road.url}/v1/files?purpose=batch&filename=raw.jsonl`;
    const raw = await fetch(address, { method: 'POST', headers, body: 'as it is' });
    const made = (await raw.json()) as { id: string };
    expect(made).toMatchObject({ filename: 'raw.jsonl', bytes: 8 });
    expect(await (await clientOf('secret', queue).files.content(made.id)).text()).toBe('as it is');
  });

  it('is listed newest first, page by page, until it is deleted', async () => {
    const client = clientOf();
    const ids: string[] = [];
    for (const name of ['a', 'b', 'c']) {
      ids.push((await client.files.create({ file: await file(name, name), purpose: 'batch' })).id);
    }
    const listed = async (query: OpenAI.FileListParams = {}) => {
      const names: string[] = [];
      for await (const one of client.files.list(query)) names.push(one.filename);
      return names;
    };
    expect(await listed()).toEqual(['c', 'b', 'a']);
    expect(await listed({ limit: 2 })).toEqual(['c', 'b', 'a']);
    expect(await listed({ order: 'asc', limit: 1 })).toEqual(['a', 'b', 'c']);
    expect(await listed({ purpose: 'user_data' })).toEqual([]);
    expect(await client.files.delete(ids[1]!)).toMatchObject({ id: ids[1], deleted: true });
    expect(await listed()).toEqual(['c', 'a']);
    await expect(client.files.retrieve(ids[1]!)).rejects.toMatchObject({ status: 404 });
    await expect(client.files.content(ids[1]!)).rejects.toMatchObject({ status: 404 });
    await expect(client.files.list({ after: 'file-none' })).rejects.toMatchObject({ status: 404 });
  });

  it('is not there for another tenant', async () => {
    const queue = `files-${++queues}`;
    const owner = clientOf('secret', queue);
    const { id } = await owner.files.create({ file: await file('mine'), purpose: 'batch' });
    const stranger = clientOf('other', queue);
    for (const ask of [
      () => stranger.files.retrieve(id),
      () => stranger.files.content(id),
      () => stranger.files.delete(id),
    ]) {
      await expect(ask()).rejects.toMatchObject({ status: 404, code: 'file_not_found' });
    }
    expect((await stranger.files.list()).data).toEqual([]);
    expect(await (await owner.files.content(id)).text()).toBe('mine');
  });

  it('is listed for those who may look, and read by those alone whose it is', async () => {
    const queue = `files-${++queues}`;
    const { id } = await clientOf('secret', queue).files.create({
      file: await file('mine'),
      purpose: 'batch',
    });
    const page = clientOf('page', queue);
    expect((await page.files.list()).data).toMatchObject([{ id }]);
    await expect(page.files.content(id)).rejects.toMatchObject({ status: 403 });
  });

  it('of a batch, and the batch, are not there for another tenant', async () => {
    const queue = `files-${++queues}`;
    const [owner, stranger] = [clientOf('secret', queue), clientOf('other', queue)];
    const input = await owner.files.create({ file: await file(batchLine('a')), purpose: 'batch' });
    const asked = {
      input_file_id: input.id,
      endpoint: '/v1/chat/completions',
      completion_window: '24h',
    } as const;
    await expect(stranger.batches.create(asked)).rejects.toMatchObject({ status: 404 });
    const { id } = await owner.batches.create(asked);
    const become = (status: string) =>
      until(async () => {
        const batch = await owner.batches.retrieve(id);
        return batch.status === status ? batch : null;
      }, `batch ${status}`);
    await become('in_progress');
    for (const ask of [
      () => stranger.batches.retrieve(id),
      () => stranger.batches.cancel(id),
      () => stranger.batches.list({ after: id }),
    ]) {
      await expect(ask()).rejects.toMatchObject({ status: 404, code: 'batch_not_found' });
    }
    expect((await stranger.batches.list()).data).toEqual([]);
    expect((await owner.batches.retrieve(id)).status).toBe('in_progress');
    await owner.batches.cancel(id);
    const errors = (await become('cancelled')).error_file_id!;
    expect(await (await owner.files.content(errors)).text()).toContain('batch_cancelled');
    await expect(stranger.files.content(errors)).rejects.toMatchObject({ status: 404 });
    await expect(stranger.files.retrieve(errors)).rejects.toMatchObject({ status: 404 });
    expect((await stranger.files.list()).data).toEqual([]);
  });

  it('survives the end of the process', async () => {
    const queue = `files-${++queues}`;
    const { id } = await clientOf('secret', queue).files.create({
      file: await file('kept'),
      purpose: 'batch',
    });
    await road.restart();
    expect(await (await clientOf('secret', queue).files.content(id)).text()).toBe('kept');
  });

  it('says when it expires', async () => {
    const client = clientOf();
    const expires_after = { anchor: 'created_at', seconds: 3600 } as const;
    const made = await client.files.create({ file: await file('x'), purpose: 'batch', expires_after });
    expect(made.expires_at).toBe(made.created_at + 3600);
    const usual = await client.files.create({ file: await file('x'), purpose: 'batch' });
    expect(usual.expires_at).toBe(usual.created_at + 30 * 86_400);
  });
});

describe('an upload that is refused', () => {
  it.each([
    [{ purpose: 'fine-tune' }, 'purpose: expected "batch" or "user_data".'],
    [{}, 'purpose: expected "batch" or "user_data".'],
    [
      { purpose: 'batch', 'expires_after[seconds]': '60' },
      'expires_after[seconds]: expected a whole number from 3600 to 2592000.',
    ],
  ])('says what is wrong with %j and leaves nothing', async (fields, message) => {
    const queue = `files-${++queues}`;
    const { status, body } = await uploadFieldsFirst(queue, fields, 'x');
    expect(status).toBe(400);
    expect(body).toMatchObject({ error: { message } });
    expect((await clientOf('secret', queue).files.list()).data).toEqual([]);
  });

  it('is told so when it is too long, with a length or without', async () => {
    const client = clientOf();
    const long = 'x'.repeat(3 * MIB + 1);
    const upload = client.files.create({ file: await file(long), purpose: 'batch' });
    await expect(upload).rejects.toMatchObject({ status: 413, code: 'too_large' });
    const { status } = await uploadFieldsFirst(
      `files-${++queues}`,
      { purpose: 'batch' },
      'x'.repeat(4 * MIB),
    );
    expect(status).toBe(413);
    expect((await client.files.list()).data).toEqual([]);
  });

  it('is told so when it is no form', async () => {
    const headers = { authorization: 'Bearer secret', 'content-type': 'multipart/form-data; boundary=b' };
    const response = await fetch(`${road.url}/v1/files`, { method: 'POST', headers, body: 'nothing' });
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ error: { code: 'invalid_form' } });
  });
});
