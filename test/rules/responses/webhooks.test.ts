import OpenAI from 'openai';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import type { FakeConnection } from '../../support/queue-harness.ts';
import { ResponsesHarness } from '../../support/responses-harness.ts';
import { settled } from '../../support/virtual-clock.ts';

let harness: ResponsesHarness;
let worker: FakeConnection;

beforeEach(() => {
  harness = new ResponsesHarness();
  worker = harness.queue.worker('w', { capacity: 10 });
});

/** Waits for as many posts: they are signed by the real machine, whatever the clock of the test says. */
const posted = (count: number) => vi.waitFor(() => expect(harness.posts).toHaveLength(count), 10_000);
const eventsPosted = () => harness.posts.map(({ text }) => JSON.parse(text));

function finish(status: string): void {
  harness.result(worker, { id: 'resp_engine', object: 'response', status, output: [] });
}

describe('the end of a response in the background', () => {
  it('is posted as OpenAI posts it, with its id and nothing else of it', async () => {
    const { id } = await harness.create({ metadata: { secret: 'x' } });
    finish('completed');
    await harness.advance(1000);
    await posted(1);
    expect(eventsPosted()).toEqual([
      {
        id: expect.stringMatching(/^evt_[0-9a-f]{32}$/),
        object: 'event',
        type: 'response.completed',
        created_at: expect.any(Number),
        data: { id },
      },
    ]);
    const [{ headers, text }] = harness.posts as [(typeof harness.posts)[0]];
    expect(headers['webhook-id']).toBe(JSON.parse(text).id);
    const client = new OpenAI({ apiKey: 'none', webhookSecret: harness.webhooks.WEBHOOK_SECRET });
    // The clock of the test is not that of the machine.
    const tolerance = Number.MAX_SAFE_INTEGER / 2;
    await client.webhooks.verifySignature(text, headers, undefined, tolerance);
    const forged = text.replace('completed', 'failed');
    await expect(client.webhooks.verifySignature(forged, headers, undefined, tolerance)).rejects.toThrow(
      'signature',
    );
  });

  it('comes where the address of the receiver is none', async () => {
    harness.webhooks.WEBHOOK_URL = 'hooks.test';
    harness.restart();
    const { id } = await harness.create({});
    finish('completed');
    await harness.advance(5000);
    expect(await harness.status(id)).toBe('completed');
  });

  it('is posted for each kind of end, once', async () => {
    await harness.create({});
    finish('incomplete');
    await harness.create({});
    harness.error(worker, { retryable: false, code: 'engine_error', error: 'it broke' });
    const cancelled = await harness.create({ stream: true });
    await harness.object.cancel(cancelled.id, null);
    await harness.object.cancel(cancelled.id, null);
    await harness.advance(5000);
    await posted(3);
    const types = eventsPosted().map(({ type }) => type);
    expect(types.sort()).toEqual(['response.cancelled', 'response.failed', 'response.incomplete']);
  });

  it('is posted again under the same id until it is taken, also after a restart', async () => {
    harness.answers = 500;
    await harness.create({});
    finish('completed');
    await harness.advance(1000);
    await posted(1);
    harness.restart();
    // A post whose outcome was lost with the object is sent again after a minute.
    await harness.advance(70_000);
    await vi.waitFor(() => expect(harness.posts.length).toBeGreaterThan(1), 10_000);
    harness.answers = 200;
    const before = harness.posts.length;
    await harness.advance(600_000);
    await posted(before + 1);
    await harness.advance(3_600_000);
    await posted(before + 1);
    expect(new Set(eventsPosted().map(({ id }) => id)).size).toBe(1);
  });

  it('is posted by no queue without a receiver', async () => {
    harness.webhooks.WEBHOOK_URL = '';
    harness.restart();
    await harness.create({});
    finish('completed');
    await settled();
    await harness.advance(5000);
    expect(harness.posts).toEqual([]);
  });
});

it('a response that was not taken has no end', async () => {
  const { id } = await harness.create({}, null, false);
  await harness.object.withdraw(id);
  await harness.advance(5000);
  expect(harness.posts).toEqual([]);
});
