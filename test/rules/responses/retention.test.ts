import { beforeEach, describe, expect, it } from 'vitest';
import { inputItems } from '../../../src/features/responses/create-body.ts';
import type { Fields } from '../../../src/features/responses/types.ts';
import { ending, ResponsesHarness, ROOM } from '../../support/responses-harness.ts';

let harness: ResponsesHarness;

beforeEach(() => {
  harness = new ResponsesHarness();
});

const conversation = (tenant: string | null = null, ...texts: string[]) =>
  harness.conversation(tenant, ...texts);
const begin = (body: Fields, tenant: string | null = null) => harness.begin(body, tenant);
const rows = (table: string) =>
  Number(harness.database.prepare(`SELECT count(*) AS n FROM ${table}`).get()!.n);

async function items(id: string): Promise<unknown[]> {
  const page = await harness.object.conversationItems(id, { after: null, limit: 100, order: 'asc' }, null);
  return (page as { data: unknown[] }).data;
}

describe('what is stored', () => {
  it('is counted for its tenant, and goes down to nothing', async () => {
    const id = await conversation('a', 'one');
    const { asked } = await begin({ conversation: id, input: 'zwö' }, 'a');
    await harness.object.keep(asked, ending('three'), 'a');
    const other = await begin({ input: 'other' }, 'b');
    await harness.object.keep(other.asked, ending('more'), 'b');
    const lengths = harness.database
      .prepare(
        `SELECT (SELECT sum(length(CAST(json AS BLOB))) FROM items) + (SELECT sum(length(CAST(body AS BLOB))) FROM responses)
           + (SELECT sum(length(CAST(metadata AS BLOB))) FROM conversations) AS n`,
      )
      .get()!;
    const stored = await harness.object.stored();
    expect(stored.map(({ tenant }) => tenant)).toEqual(['a', 'b']);
    expect(stored.reduce((sum, { bytes }) => sum + bytes, 0)).toBe(lengths.n);
    await harness.object.remove(asked.id, 'a');
    await harness.object.removeConversation(id, 'a');
    expect((await harness.object.stored()).map(({ tenant }) => tenant)).toEqual(['b']);
    await harness.object.remove(other.asked.id, 'b');
    expect(await harness.object.stored()).toEqual([]);
  });

  it('is no more than a token allows its tenant', async () => {
    const first = await harness.begin({ input: 'x'.repeat(100) }, 'a', 100);
    expect(first.said).toEqual({ history: [] });
    await harness.object.keep(first.asked, ending('y'), 'a');
    const full = { status: 429, code: 'storage_limit_exceeded' };
    expect((await harness.begin({}, 'a', 100)).said).toMatchObject(full);
    expect((await harness.begin({ background: true }, 'a', 100)).said).toMatchObject(full);
    expect(await harness.object.createConversation('a', {}, [], 100)).toMatchObject(full);
    expect((await harness.begin({ store: false }, 'a', 100)).said).toEqual({ history: [] });
    expect((await harness.begin({}, 'b', 100)).said).toEqual({ history: [] });
    expect((await harness.begin({}, 'a', 10_000)).said).toEqual({ history: [] });
    await harness.object.remove(first.asked.id, 'a');
    expect((await harness.begin({}, 'a', 100)).said).toEqual({ history: [] });
  });

  it('is of a response for its retention, and of a conversation for ever', async () => {
    harness = new ResponsesHarness({ retention_seconds: 3600 });
    const id = await conversation(null, 'one');
    const { asked } = await begin({});
    await harness.object.keep(asked, ending('x'), null);
    await harness.advance(3_540_000);
    expect(await harness.object.get(asked.id, null)).not.toBeNull();
    await harness.advance(120_000);
    expect(await harness.object.get(asked.id, null)).toBeNull();
    expect(rows('items')).toBe(1);
    expect(await harness.object.getConversation(id, null)).toMatchObject({ id });
  });

  it('is of a conversation for as long after its last change as is set', async () => {
    harness = new ResponsesHarness({ conversations_retention_seconds: 3600 });
    const idle = await conversation(null, 'one');
    const used = await conversation(null, 'two');
    await harness.advance(3_000_000);
    await harness.object.addItems(used, inputItems('three'), null, null, ROOM);
    const locked = await begin({ conversation: used });
    harness.queue.worker('w');
    harness.queue.request({ job_id: `req-${locked.asked.id}` });
    await harness.advance(3_599_000);
    expect(await harness.object.getConversation(idle, null)).toMatchObject({ status: 404 });
    expect(await items(used)).toHaveLength(2);
    // Nothing expires while a response is made in it.
    await harness.advance(3_600_000);
    await harness.object.keep(locked.asked, ending('four'), null);
    expect(await items(used)).toHaveLength(4);
    await harness.advance(3_660_000);
    expect(await harness.object.getConversation(used, null)).toMatchObject({ status: 404 });
  });
});
