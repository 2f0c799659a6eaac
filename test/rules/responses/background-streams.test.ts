import { beforeEach, describe, expect, it } from 'vitest';
import type { Fields } from '../../../src/features/responses/types.ts';
import type { FakeConnection } from '../../support/queue-harness.ts';
import { ResponsesHarness, streamOf } from '../../support/responses-harness.ts';
import { settled } from '../../support/virtual-clock.ts';

let harness: ResponsesHarness;
let worker: FakeConnection;

beforeEach(() => {
  harness = new ResponsesHarness();
  worker = harness.queue.worker('w', { capacity: 10 });
});

const WORDS = ['Once ', 'upon ', 'a ', 'time'];
const PLACE = { item_id: 'msg_1', output_index: 0, content_index: 0 };

/** The events of an engine for an answer of these words. */
function engineEvents(words = WORDS, status = 'completed'): Fields[] {
  const text = words.join('');
  const part = { type: 'output_text', text: '', annotations: [], logprobs: [] };
  const item = { id: 'msg_1', type: 'message', role: 'assistant' };
  const done = { ...item, status: 'completed', content: [{ ...part, text }] };
  const response = { id: 'resp_engine', object: 'response' };
  return [
    { type: 'response.created', response: { ...response, status: 'in_progress', output: [] } },
    { type: 'response.in_progress', response: { ...response, status: 'in_progress', output: [] } },
    {
      type: 'response.output_item.added',
      output_index: 0,
      item: { ...item, status: 'in_progress', content: [] },
    },
    { type: 'response.content_part.added', ...PLACE, part },
    ...words.map((delta) => ({ type: 'response.output_text.delta', ...PLACE, delta, logprobs: [] })),
    { type: 'response.output_text.done', ...PLACE, text, logprobs: [] },
    { type: 'response.content_part.done', ...PLACE, part: { ...part, text } },
    { type: 'response.output_item.done', output_index: 0, item: done },
    { type: 'response.completed', response: { ...response, status, output: [done] } },
  ];
}

const TYPES = [
  ...['response.created', 'response.queued', 'response.in_progress', 'response.output_item.added'],
  ...['response.content_part.added', ...WORDS.map(() => 'response.output_text.delta')],
  ...['response.output_text.done', 'response.content_part.done', 'response.output_item.done'],
  'response.completed',
];

const stream = (fence = worker.lastJob().fence_token) => harness.replay(fence);
const typesOf = (events: Fields[]) => events.map(({ type }) => type);

function expectNumbered(events: Fields[], from = 0): void {
  expect(events.map(({ sequence_number }) => sequence_number)).toEqual(events.map((_, at) => from + at));
}

/** Ends the job with the whole answer. */
function finish(events = engineEvents()): void {
  harness.result(worker, streamOf(events));
}

describe('the stream of a response in the background', () => {
  it('has events of its own, from created to the end of the record', async () => {
    const { id } = await harness.create({ stream: true });
    await harness.advance(100);
    expect(typesOf(await harness.events(id))).toEqual(TYPES.slice(0, 3));
    const events = engineEvents();
    stream().say(...events.slice(0, 5));
    await settled();
    expect(typesOf(await harness.events(id))).toEqual(TYPES.slice(0, 6));
    stream().say(...events.slice(5));
    stream().end();
    await harness.advance(100);
    // The job has not settled, so it may still be cancelled.
    expect(typesOf(await harness.events(id))).toEqual(TYPES.slice(0, -1));
    finish();
    await settled();
    const all = await harness.events(id);
    expect(typesOf(all)).toEqual(TYPES);
    expectNumbered(all);
    for (const event of all.filter(({ response }) => response))
      expect(event).toMatchObject({ response: { id } });
    expect(all.at(-1)).toMatchObject({ response: { status: 'completed', background: true } });
    const deltas = all.filter(({ type }) => type === 'response.output_text.delta');
    expect(deltas).toMatchObject(WORDS.map((delta) => ({ ...PLACE, delta, logprobs: [] })));
  });

  it('is the same from every place, for any number of readers', async () => {
    const { id } = await harness.create({ stream: true });
    stream().say(...engineEvents().slice(0, 6));
    await harness.advance(100);
    finish();
    await settled();
    const all = await harness.events(id);
    for (let after = 0; after < all.length; after += 1)
      expect(await harness.events(id, after)).toEqual(all.slice(after + 1));
    expect(await harness.object.events(id, 100, 10_000, null)).toEqual({
      text: '',
      last: 100,
      is_over: true,
    });
  });

  it('is the same however its bytes are cut on their way', async () => {
    const { id } = await harness.create({ stream: true });
    const text = streamOf(engineEvents().slice(0, 8));
    for (let at = 0; at < text.length; at += 7) {
      stream().write(text.slice(at, at + 7));
      await settled();
    }
    await harness.advance(100);
    expect(typesOf(await harness.events(id))).toEqual(TYPES.slice(0, 9));
    finish();
    await settled();
    expect(typesOf(await harness.events(id))).toEqual(TYPES);
  });

  it('takes what the relay did not give from the result of the job', async () => {
    const { id } = await harness.create({ stream: true });
    stream().say(...engineEvents().slice(0, 6));
    await harness.advance(100);
    stream().break();
    await harness.advance(100);
    finish();
    await settled();
    expect(typesOf(await harness.events(id))).toEqual(TYPES);
  });

  it('goes on behind what is stored when the object begins again', async () => {
    const { id } = await harness.create({ stream: true });
    stream().say(...engineEvents().slice(0, 6));
    await harness.advance(100);
    const before = await harness.events(id);
    harness.replays.clear();
    harness.restart();
    await settled();
    stream().say(...engineEvents().slice(0, 8));
    await harness.advance(100);
    const after = await harness.events(id);
    expect(after.slice(0, before.length)).toEqual(before);
    expect(typesOf(after)).toEqual(TYPES.slice(0, 9));
    finish();
    await settled();
    const all = await harness.events(id);
    expect(typesOf(all)).toEqual(TYPES);
    expectNumbered(all);
  });

  it('is read again from its relay where that begins anew', async () => {
    const { id } = await harness.create({ stream: true });
    stream().say(...engineEvents().slice(0, 6));
    await harness.advance(100);
    stream().break();
    harness.replays.clear();
    await harness.advance(1000);
    stream().say(...engineEvents().slice(0, 8));
    await harness.advance(100);
    const all = await harness.events(id);
    expect(typesOf(all)).toEqual(TYPES.slice(0, 9));
    expectNumbered(all);
  });

  it('is read once its worker is back, where the relay had waited for it in vain', async () => {
    harness.broken = { message: 'it did not come back', code: 'worker_died', retryable: true };
    const { id } = await harness.create({ stream: true });
    await harness.advance(1000);
    stream().say(...engineEvents().slice(0, 6));
    await harness.advance(100);
    expect(typesOf(await harness.events(id))).toEqual(TYPES.slice(0, 7));
  });

  it('is made by the next attempt where the first gave nothing', async () => {
    const { id } = await harness.create({ stream: true });
    const first = stream();
    first.say(...engineEvents().slice(0, 2));
    await settled();
    harness.error(worker, { code: 'engine_died', error: 'it is gone', retryable: true });
    first.break();
    await harness.advance(2000);
    stream().say(...engineEvents());
    finish();
    await settled();
    const all = await harness.events(id);
    expect(typesOf(all)).toEqual(TYPES);
    expect(await harness.status(id)).toBe('completed');
  });

  it('fails where an attempt ends behind its first words, and keeps them', async () => {
    const { id } = await harness.create({ stream: true });
    const first = stream();
    first.say(...engineEvents().slice(0, 6));
    await harness.advance(100);
    const usage = { prompt_tokens: 8, completion_tokens: 2, estimated: true };
    harness.error(worker, { code: 'engine_died', error: 'it is gone', retryable: true, usage });
    first.break();
    await harness.advance(10_000);
    const all = await harness.events(id);
    expect(typesOf(all)).toEqual([...TYPES.slice(0, 7), 'response.failed']);
    expectNumbered(all);
    const failed = { status: 'failed', error: { code: 'server_error' } };
    expect(all.at(-1)).toMatchObject({ response: failed });
    const { response } = (await harness.object.get(id, null))!;
    expect(response).toMatchObject({
      ...failed,
      usage: { input_tokens: 8, output_tokens: 2, total_tokens: 10 },
      output: [{ status: 'incomplete', content: [{ text: 'Once upon ' }] }],
    });
    // A second answer would have other words.
    expect(harness.queue.state(id)).toBe('cancelled');
    expect((await harness.object.events(id, 100, 0, null)) as object).toMatchObject({ is_over: true });
  });

  it('ends every reader when it is cancelled, without a last event', async () => {
    const { id } = await harness.create({ stream: true });
    stream().say(...engineEvents().slice(0, 6));
    await harness.advance(100);
    const readers = [6, 50].map((after) => harness.object.events(id, after, 60_000, null));
    await harness.object.cancel(id, null);
    await settled();
    const pages = (await Promise.all(readers)) as { is_over: boolean; text: string }[];
    expect(pages.every(({ is_over }) => is_over)).toBe(true);
    expect(typesOf(await harness.events(id))).toEqual(TYPES.slice(0, 7));
    expect(pages.at(-1)!.text).toBe('');
  });

  it('waits for a number that does not exist yet', async () => {
    const { id } = await harness.create({ stream: true });
    let page: object | null = null;
    void harness.object.events(id, 5, 60_000, null).then((told) => {
      page = told as object;
    });
    stream().say(...engineEvents().slice(0, 5));
    await harness.advance(100);
    stream().say(...engineEvents().slice(5, 6));
    await harness.advance(100);
    expect(page).toMatchObject({ last: 6 });
  });

  it('is given in pages of a bounded length, also where its events came all at once', async () => {
    const { id } = await harness.create({ stream: true });
    await harness.advance(100);
    const words = Array.from({ length: 20_000 }, (_, at) => `${at} `);
    finish(engineEvents(words));
    await settled();
    const pages: string[] = [];
    for (let after = -1, isOver = false; !isOver; ) {
      const page = await harness.object.events(id, after, 0, null);
      if (typeof page === 'string') throw new Error(page);
      pages.push(page.text);
      after = page.last;
      isOver = page.is_over;
    }
    for (const text of pages) expect(text.length).toBeLessThan(1_000_000);
    const deltas = pages.join('').match(/"delta":"[^"]*"/g)!;
    expect(deltas).toEqual(words.map((word) => `"delta":"${word}"`));
  });

  it('is gone 15 minutes after the end, and the response is not', async () => {
    const { id } = await harness.create({ stream: true });
    finish();
    await settled();
    await harness.advance(14 * 60_000);
    expect(await harness.events(id)).toHaveLength(TYPES.length);
    await harness.advance(2 * 60_000);
    expect(await harness.object.events(id, -1, 0, null)).toBe('too_old');
    expect(await harness.status(id)).toBe('completed');
    expect(harness.database.prepare('SELECT count(*) AS n FROM events').get()).toEqual({ n: 0 });
  });

  it('is only of those that were created with it', async () => {
    const { id } = await harness.create({});
    expect(await harness.object.events(id, -1, 0, null)).toBe('not_streamed');
  });

  it('takes some ten bytes for a token', async () => {
    const { id } = await harness.create({ stream: true });
    const words = Array.from({ length: 2000 }, (_, n) => `word${n % 10} `);
    const events = engineEvents(words);
    for (let at = 0; at < events.length; at += 10) {
      stream().say(...events.slice(at, at + 10));
      await harness.advance(50);
    }
    finish(events);
    await settled();
    expect((await harness.events(id)).length).toBeGreaterThan(100);
    const [row] = harness.database.prepare('SELECT sum(length(events)) AS length FROM events').all() as {
      length: number;
    }[];
    // The ends of text, part, item and response have the whole text each.
    expect(row!.length - 4 * words.join('').length).toBeLessThan(12 * words.length);
  });
});

describe('a response that is cancelled at any moment', () => {
  it.each(Array.from({ length: 200 }, (_, moment) => moment))('has one end: moment %i', async (moment) => {
    const isStreamed = moment % 2 === 0;
    const { id } = await harness.create({ stream: isStreamed });
    const steps: (() => unknown)[] = [
      () => stream().say(...engineEvents().slice(0, 4)),
      () => harness.advance(50),
      () => stream().say(...engineEvents().slice(4, 9)),
      () => settled(),
      () => finish(),
      () => settled(),
    ];
    const cancelAt = moment % (steps.length + 1);
    const turns = Math.floor(moment / 14);
    let cancelled: Promise<unknown> = Promise.resolve();
    for (let at = 0; at <= steps.length; at += 1) {
      if (at === cancelAt) {
        for (let turn = 0; turn < turns % 4; turn += 1) await Promise.resolve();
        cancelled = harness.object.cancel(id, null);
      }
      if (at === 4 && harness.queue.state(id) !== 'leased') continue;
      await steps[at]?.();
    }
    const told = (await cancelled) as Fields;
    await settled();
    const isCancelled = harness.queue.state(id) === 'cancelled';
    expect(told.status).toBe(isCancelled ? 'cancelled' : 'completed');
    expect((await harness.object.get(id, null))!.response).toEqual(told);
    if (!isStreamed) return;
    const all = await harness.events(id);
    expectNumbered(all);
    expect(all.filter(({ type }) => type === 'response.completed')).toHaveLength(isCancelled ? 0 : 1);
  });
});
