import { beforeEach, describe, expect, it } from 'vitest';
import { inputItems, newItem } from '../../../src/features/responses/create-body.ts';
import type { Fields, Refusal } from '../../../src/features/responses/types.ts';
import { ending, ResponsesHarness, ROOM } from '../../support/responses-harness.ts';
import { settled } from '../../support/virtual-clock.ts';

let harness: ResponsesHarness;

beforeEach(() => {
  harness = new ResponsesHarness();
});

const LOCKED = {
  status: 400,
  code: 'conversation_locked',
  param: 'conversation',
  message: 'Another process is currently operating on this conversation. Please retry in a few seconds.',
};

const conversation = (tenant: string | null = null, ...texts: string[]) =>
  harness.conversation(tenant, ...texts);
const begin = (body: Fields, tenant: string | null = null, historyBytes = ROOM) =>
  harness.begin(body, tenant, null, historyBytes);

async function texts(id: string): Promise<string[]> {
  const page = await harness.object.conversationItems(id, { after: null, limit: 100, order: 'asc' }, null);
  const { data } = page as { data: Fields[] };
  return data.map(({ content }) => String((content as Fields[])[0]!.text));
}

async function isFree(id: string): Promise<boolean> {
  const said = await harness.object.addItems(id, [], null, null, ROOM);
  if ('items' in said) return true;
  expect(said).toEqual(LOCKED);
  return false;
}

const rows = (table: string) =>
  Number(harness.database.prepare(`SELECT count(*) AS n FROM ${table} WHERE id != ''`).get()!.n);

describe('a conversation', () => {
  it('is made, read, changed and deleted', async () => {
    const said = await harness.object.createConversation('a', { topic: 'x' }, inputItems('one'), null);
    const made = said as Fields & { id: string };
    expect(made).toMatchObject({ object: 'conversation', metadata: { topic: 'x' } });
    expect(made.id).toMatch(/^conv_1[\dA-Za-z]{28}$/);
    expect(await harness.object.getConversation(made.id, 'a')).toEqual(made);
    const changed = await harness.object.changeConversation(made.id, { topic: 'y' }, 'a');
    expect(changed).toEqual({ ...made, metadata: { topic: 'y' } });
    expect(await harness.object.removeConversation(made.id, 'a')).toBeNull();
    expect(await harness.object.getConversation(made.id, 'a')).toMatchObject({ status: 404 });
    expect([rows('conversations'), rows('items')]).toEqual([0, 0]);
  });

  it('has its items in pages, each under one id, with its content in parts', async () => {
    const id = await conversation(null, 'one', 'two', 'three');
    const wanted = { after: null, limit: 2, order: 'desc' as const };
    const page = await harness.object.conversationItems(id, wanted, null);
    expect(page).toMatchObject({ has_more: true, data: [{ type: 'message', role: 'user' }, {}] });
    const [, second] = (page as { data: { id: string }[] }).data;
    const rest = await harness.object.conversationItems(id, { ...wanted, after: second!.id }, null);
    expect(rest).toMatchObject({ has_more: false, data: [{ content: [{ text: 'one' }] }] });
    const added = await harness.object.addItems(
      id,
      [newItem({ role: 'assistant', content: 'four' })],
      null,
      null,
      ROOM,
    );
    const { items } = added as { items: { id: string }[] };
    expect(items).toMatchObject([{ type: 'message', content: [{ type: 'output_text', text: 'four' }] }]);
    expect(await harness.object.conversationItem(id, items[0]!.id, null)).toEqual({ item: items[0] });
    expect(await harness.object.removeItem(id, items[0]!.id, null)).toMatchObject({ object: 'conversation' });
    expect(await texts(id)).toEqual(['one', 'two', 'three']);
    expect(rows('items')).toBe(3);
    const none = await harness.object.conversationItem(id, 'msg_none', null);
    expect(none).toMatchObject({ status: 404, code: 'item_not_found' });
  });

  it('goes on with each response, which gets all of it', async () => {
    const id = await conversation(null, 'one');
    const first = await begin({ conversation: id, input: 'two' });
    const { history } = first.said as { history: string[] };
    expect(history.map((json) => JSON.parse(json))).toMatchObject([{ content: [{ text: 'one' }] }]);
    await harness.object.keep(first.asked, ending('three'), null);
    const second = await begin({ conversation: { id }, input: 'four' });
    expect((second.said as { history: string[] }).history).toHaveLength(3);
    await harness.object.keep(second.asked, ending('five', 'incomplete'), null);
    expect(await texts(id)).toEqual(['one', 'two', 'three', 'four', 'five']);
  });

  it.each(['failed', 'cancelled'] as const)('gets nothing of a response that is %s', async (status) => {
    const id = await conversation(null, 'one');
    const { asked } = await begin({ conversation: id });
    await harness.object.keep(asked, ending('x', status), null);
    expect(await texts(id)).toEqual(['one']);
    expect(await isFree(id)).toBe(true);
  });

  it('is not there for another tenant, on any call', async () => {
    const id = await conversation('a', 'one');
    const { data } = (await harness.object.conversationItems(
      id,
      { after: null, limit: 1, order: 'asc' },
      'a',
    )) as { data: { id: string }[] };
    const { object } = harness;
    const wanted = { after: null, limit: 1, order: 'asc' as const };
    const said = [
      await object.getConversation(id, 'b'),
      await object.changeConversation(id, {}, 'b'),
      await object.addItems(id, inputItems('x'), 'b', null, ROOM),
      await object.conversationItems(id, wanted, 'b'),
      await object.conversationItem(id, data[0]!.id, 'b'),
      await object.removeItem(id, data[0]!.id, 'b'),
      await object.removeConversation(id, 'b'),
      (await begin({ conversation: id }, 'b')).said,
    ];
    for (const one of said)
      expect(one).toMatchObject({ status: 404, code: 'conversation_not_found', param: 'conversation' });
    expect(await texts(id)).toEqual(['one']);
  });

  it('is gone on from, and added to, up to the size of a body', async () => {
    const id = await conversation(null, 'x'.repeat(1000), 'é'.repeat(1000));
    const before = (await begin({ conversation: id }, null, 3000)).said;
    expect(before).toMatchObject({ status: 409, code: 'resolved_snapshot_too_large' });
    const added = await harness.object.addItems(id, inputItems('x'), null, null, 3000);
    expect(added).toEqual({ ...before, message: expect.stringContaining(' 3000 bytes') });
    const { asked, said } = await begin({ conversation: id }, null, 3500);
    expect(said).toMatchObject({ history: [{}, {}].map(() => expect.any(String)) });
    expect(await harness.object.history(asked, null, 3000)).toEqual(before);
  });

  it('leaves its items to the responses that have them, and they go with the last of these', async () => {
    const id = await conversation(null, 'one', 'two');
    const { asked } = await begin({ conversation: id, input: 'three' });
    await harness.object.keep(asked, ending('four'), null);
    const next = await begin({ previous_response_id: asked.id, input: 'five' });
    await harness.object.keep(next.asked, ending('six'), null);
    await harness.object.removeConversation(id, null);
    expect(rows('items')).toBe(6);
    await harness.object.remove(asked.id, null);
    expect(rows('items')).toBe(6);
    await harness.object.remove(next.asked.id, null);
    expect(rows('items')).toBe(0);
    expect(await harness.object.stored()).toEqual([]);
  });

  it('keeps its items when their response goes', async () => {
    const id = await conversation();
    const { asked } = await begin({ conversation: id, input: 'one' });
    await harness.object.keep(asked, ending('two'), null);
    await harness.object.remove(asked.id, null);
    expect(await texts(id)).toEqual(['one', 'two']);
  });
});

describe('the lock of a conversation', () => {
  it('refuses all that would change its items while a response is made', async () => {
    const id = await conversation(null, 'one');
    const { asked } = await begin({ conversation: id });
    const page = await harness.object.conversationItems(id, { after: null, limit: 1, order: 'asc' }, null);
    const [item] = (page as { data: { id: string }[] }).data;
    expect((await begin({ conversation: id })).said).toEqual(LOCKED);
    expect((await begin({ conversation: id, background: true })).said).toEqual(LOCKED);
    expect(await harness.object.addItems(id, inputItems('x'), null, null, ROOM)).toEqual(LOCKED);
    expect(await harness.object.removeItem(id, item!.id, null)).toEqual(LOCKED);
    expect(await harness.object.removeConversation(id, null)).toEqual(LOCKED);
    expect(await harness.object.getConversation(id, null)).toMatchObject({ id });
    harness.restart();
    expect(await isFree(id)).toBe(false);
    await harness.object.release(id, asked.id);
    expect(await isFree(id)).toBe(true);
  });

  it('is taken once of two at once', async () => {
    const id = await conversation();
    const both = await Promise.all([begin({ conversation: id }), begin({ conversation: id })]);
    expect(both.filter(({ said }) => (said as Refusal).code === 'conversation_locked')).toHaveLength(1);
  });

  it('is kept by a request that the queue knows, and goes with one that it has not known for a while', async () => {
    const id = await conversation();
    const { asked } = await begin({ conversation: id });
    const job = (await harness.object.lockJob(id))!;
    expect(job).toBe(`req-${asked.id}`);
    const worker = harness.queue.worker('w');
    harness.queue.request({ job_id: job });
    expect(await harness.object.checkLock(id, job, true)).toBe(false);
    await harness.advance(60_000);
    const { job_id, fence_token } = worker.lastJob();
    harness.say(worker, { type: 'job_result', job_id, fence_token, result: {} });
    expect(await harness.object.checkLock(id, job, false)).toBe(false);
    expect(await harness.object.checkLock(id, job, true)).toBe(false);
    harness.restart();
    await harness.advance(9000);
    expect(await harness.object.checkLock(id, job, true)).toBe(false);
    await harness.advance(2000);
    expect(await harness.object.checkLock(id, job, true)).toBe(true);
    const next = await begin({ conversation: id });
    expect(next.said).toMatchObject({ history: [] });
    // The answer of the first comes all the same: the conversation is the other's now.
    expect(await harness.object.keep(asked, ending('late'), null)).toBe(false);
    expect(await harness.object.checkLock(id, job, true)).toBe(false);
    expect(await texts(id)).toEqual([]);
  });

  describe('that nobody asks for after its gateway was killed', () => {
    const isLocked = (id: string) =>
      harness.database.prepare('SELECT locked_by FROM conversations WHERE id = ?').get(id)!.locked_by !==
      null;

    it('goes when the queue has not known the request for a while, and the conversation expires', async () => {
      harness = new ResponsesHarness({ conversations_retention_seconds: 3600 });
      const id = await conversation();
      await begin({ conversation: id });
      harness.restart();
      await harness.advance(59_000);
      expect(isLocked(id)).toBe(true);
      await harness.advance(15_000);
      expect(isLocked(id)).toBe(false);
      await harness.advance(3_600_000);
      expect(await harness.object.getConversation(id, null)).toMatchObject({ status: 404 });
    });

    it('stays as long as the request runs, however long', async () => {
      const worker = harness.queue.worker('w');
      const id = await conversation();
      const { asked } = await begin({ conversation: id });
      harness.queue.request({ job_id: `req-${asked.id}` });
      await harness.advance(600_000);
      expect(isLocked(id)).toBe(true);
      const { job_id, fence_token } = worker.lastJob();
      harness.say(worker, { type: 'job_result', job_id, fence_token, result: {} });
      await harness.advance(90_000);
      expect(isLocked(id)).toBe(false);
    });
  });

  describe('of a response in the background', () => {
    const engineResponse = (status: string) => ({
      object: 'response',
      status,
      output: [{ type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'x' }] }],
    });

    it.each([
      ['completed', 2],
      ['incomplete', 2],
      ['failed', 0],
    ] as const)('is freed when it is %s', async (status, items) => {
      const worker = harness.queue.worker('w');
      const id = await conversation();
      const made = await harness.create({ conversation: id });
      await settled();
      expect(await isFree(id)).toBe(false);
      harness.restart();
      harness.result(worker, engineResponse(status));
      await settled();
      expect(await harness.status(made.id)).toBe(status);
      expect(await isFree(id)).toBe(true);
      expect(await texts(id)).toHaveLength(items);
    });

    it('is freed when it is cancelled', async () => {
      const id = await conversation();
      const made = await harness.create({ conversation: id });
      expect(await harness.object.lockJob(id)).toBeNull();
      await harness.object.cancel(made.id, null);
      expect(await isFree(id)).toBe(true);
    });

    it('is freed when its job was refused', async () => {
      const id = await conversation();
      const made = await harness.create({ conversation: id }, null, false);
      await harness.object.withdraw(made.id);
      expect(await isFree(id)).toBe(true);
      expect(rows('items')).toBe(0);
    });

    it('is freed when no job was ever submitted', async () => {
      const id = await conversation();
      await harness.create({ conversation: id }, null, false);
      harness.restartAll();
      await harness.advance(180_000);
      expect(await isFree(id)).toBe(true);
    });

    it('is freed when its job expires', async () => {
      const id = await conversation();
      const made = await harness.create({ conversation: id }, null, false);
      harness.submit(made, { deadline_seconds: 30 });
      await harness.advance(29_000);
      expect(await isFree(id)).toBe(false);
      await harness.advance(10_000);
      expect(await harness.status(made.id)).toBe('failed');
      expect(await isFree(id)).toBe(true);
      expect(await texts(id)).toEqual([]);
    });

    it('is freed when its worker dies and no attempt is left', async () => {
      const id = await conversation();
      const made = await harness.create({ conversation: id });
      for (let attempt = 0; attempt < 4; attempt++) {
        const worker = harness.queue.worker(`w${attempt}`);
        await settled();
        harness.queue.drop(worker);
        await harness.advance(120_000);
      }
      expect(await harness.status(made.id)).toBe('failed');
      expect(await isFree(id)).toBe(true);
    });
  });
});
