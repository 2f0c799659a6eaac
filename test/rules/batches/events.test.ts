import { readFileSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import OpenAI from 'openai';
import { expect, it } from 'vitest';
import type { NewBatch } from '../../../src/batches/batch.ts';
import { BatchesObject } from '../../../src/batches/object.ts';
import type { ObjectHost } from '../../../src/durable/host.ts';
import type { Row } from '../../../src/durable/ports.ts';
import { batchQueue } from '../../../src/gateway/objects/batches.ts';
import { inferenceRoutes } from '../../../src/protocol/index.ts';
import { batchCalls, HOUR_MS, inputFile, NOW, newBatch } from '../../support/batch-harness.ts';
import { playedObjects } from '../../support/objects.ts';
import { until } from '../../support/poll.ts';
import { QueueHarness } from '../../support/queue-harness.ts';

const SECRET = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;

const INPUT = ['a', 'b']
  .map((custom_id) =>
    JSON.stringify({
      custom_id,
      method: 'POST',
      url: '/v1/chat/completions',
      body: { model: 'tiny', messages: [] },
    }),
  )
  .map((line) => `${line}\n`)
  .join('');

/** The object of batches over the rules of a real queue, with a clock that the test sets. */
class Batches {
  readonly queue = new QueueHarness();
  readonly posts: { headers: Record<string, string>; text: string }[] = [];
  now = NOW;
  readonly object: BatchesObject;
  readonly database: DatabaseSync;
  #alarmAt: number | null = null;

  constructor(database = new DatabaseSync(':memory:')) {
    this.database = database;
    const env = { objects: playedObjects({ queue: () => batchCalls(this.queue) }) };
    const input = new TextEncoder().encode(INPUT);
    const ask = {
      queue: batchQueue(env, 'q'),
      routes: inferenceRoutes(),
      ownModels: async (models: readonly (string | null)[]) => [...models],
      files: {
        size: async () => input.byteLength,
        read: async (_: string, offset: number, length: number) => input.slice(offset, offset + length),
        readLines: async (_: string, lines: { offset: number; length: number }[]) =>
          lines.map(({ offset, length }) => input.slice(offset, offset + length)),
        append: async () => 1,
        keep: async () => {},
      },
    };
    const settings = {
      WEBHOOK_URL: 'https://hooks.test/x',
      WEBHOOK_HOSTS: 'hooks.test',
      WEBHOOK_SECRET: SECRET,
    };
    this.object = new BatchesObject(this.#host(), ask, {
      settings,
      post:
        () =>
        async (_, { body, headers }) => {
          this.posts.push({ headers: headers as Record<string, string>, text: String(body) });
          return new Response(null, { status: 200 });
        },
    });
  }

  /** Creates a batch of two lines. */
  async create(more: Partial<NewBatch> = {}): Promise<string> {
    const asked = newBatch('batch_1', more);
    await this.object.addFile(inputFile(asked.input_file_id));
    await this.object.createBatch(asked, null);
    return asked.id;
  }

  /** Waits for the first post, while the queue answers and alarms ring. */
  async posted(): Promise<(typeof this.posts)[0]> {
    return await until(
      async () => {
        this.now += 1000;
        this.queue.advance(1);
        this.queue.queue.answerListeners();
        if (this.#alarmAt !== null && this.#alarmAt <= this.now) {
          this.#alarmAt = null;
          await this.object.alarm();
        }
        return this.posts[0];
      },
      'the end to be posted',
      { timeoutMs: 15_000 },
    );
  }

  #host(): ObjectHost {
    return {
      queueId: 'q',
      sql: { exec: (query, ...bindings) => this.database.prepare(query).all(...bindings) as Row[] },
      transaction: (work) => work(),
      alarm: {
        get: () => this.#alarmAt,
        set: (at) => {
          this.#alarmAt = at;
        },
        clear: () => {
          this.#alarmAt = null;
        },
      },
      now: () => this.now,
      after: (_, run) => {
        const timer = setTimeout(run, 1);
        return () => clearTimeout(timer);
      },
      background: (work) => void work.catch(() => {}),
      log: () => {},
    } as Partial<ObjectHost> as ObjectHost;
  }
}

/** Checks that a post is the event of a batch's end, and that OpenAI's client takes its signature. */
async function expectEvent({ headers, text }: Batches['posts'][0], type: string, id: string): Promise<void> {
  expect(JSON.parse(text)).toEqual({
    id: headers['webhook-id'],
    object: 'event',
    type,
    created_at: expect.any(Number),
    data: { id },
  });
  const client = new OpenAI({ apiKey: 'none', webhookSecret: SECRET });
  // The clock of the test is not that of the machine.
  await client.webhooks.verifySignature(text, headers, undefined, Number.MAX_SAFE_INTEGER / 2);
}

it('a batch that is cancelled is posted once it has ended', async () => {
  const batches = new Batches();
  const worker = batches.queue.worker('w', { capacity: 1 });
  const id = await batches.create();
  await until(() => worker.frames('job').length > 0, 'a line to run');
  await batches.object.cancelBatch(id, null);
  expect(batches.posts).toEqual([]);
  await expectEvent(await batches.posted(), 'batch.cancelled', id);
  expect(await batches.object.findBatch(id, null)).toMatchObject({ status: 'cancelled' });
});

it('a batch whose window is over is posted as expired', async () => {
  const batches = new Batches();
  const worker = batches.queue.worker('w', { capacity: 1 });
  const id = await batches.create({ expires_at: NOW + HOUR_MS });
  await until(() => worker.frames('job').length > 0, 'a line to run');
  batches.now += HOUR_MS;
  await expectEvent(await batches.posted(), 'batch.expired', id);
  expect(await batches.object.findBatch(id, null)).toMatchObject({ status: 'expired' });
});

it('a database of version 28 goes on with its batch, and posts its end', async () => {
  const database = new DatabaseSync(':memory:');
  database.exec(readFileSync(new URL('state-28.sql', import.meta.url), 'utf8'));
  const batches = new Batches(database);
  const schema = (of: DatabaseSync) =>
    of
      .prepare(`SELECT name, sql FROM sqlite_master WHERE sql NOT NULL ORDER BY name`)
      .all()
      .map((row) => JSON.stringify(row).replaceAll(/(\\n|\s)+/g, ' '));
  const version = (of: DatabaseSync) => of.prepare(`SELECT version FROM schema_version`).all();
  const fresh = new Batches().database;
  expect([schema(database), version(database)]).toEqual([schema(fresh), version(fresh)]);
  expect(await batches.object.findBatch('batch_1', null)).toMatchObject({ status: 'in_progress', total: 2 });
  const worker = batches.queue.worker('w', { capacity: 2 });
  await until(() => worker.frames('job').length > 0, 'a line to run');
  await batches.object.cancelBatch('batch_1', null);
  await expectEvent(await batches.posted(), 'batch.cancelled', 'batch_1');
});
