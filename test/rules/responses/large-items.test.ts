import { expect, it } from 'vitest';
import { inputItems } from '../../../src/features/responses/create-body.ts';
import { ending, ResponsesHarness } from '../../support/responses-harness.ts';

/** What is longer than a row of a database on Cloudflare, which has 2 MB. */

const PLENTY = 200_000_000;
const textOf = (item: unknown) => JSON.stringify(Object(item).content);

it.each([330, 21_120, 21_121, 500_001, 10_485_759])(
  'an item of %i characters is stored as it came',
  async (length) => {
    const harness = new ResponsesHarness();
    const input = '🙂ä'.repeat(length / 3);
    const { asked } = await harness.begin({ input });
    await harness.object.keep(asked, ending('said'), null);
    const page = await harness.object.inputItems(asked.id, { after: null, limit: 1, order: 'asc' }, null);
    expect(textOf(page!.data[0]) === JSON.stringify([{ type: 'input_text', text: input }])).toBe(true);
    const next = await harness.begin({ previous_response_id: asked.id }, null, null, PLENTY);
    expect(Object(next.said).history).toHaveLength(2);
    await harness.object.remove(asked.id, null);
    for (const table of ['items', 'item_pieces'])
      expect(harness.database.prepare(`SELECT count(*) AS n FROM ${table}`).get()).toEqual({ n: 0 });
  },
);

it('an item of a conversation may be as long', async () => {
  const harness = new ResponsesHarness();
  const id = await harness.conversation(null, 'x'.repeat(5_000_000));
  await harness.object.addItems(id, inputItems('ä'.repeat(5_000_000)), null, null, PLENTY);
  const page = await harness.object.conversationItems(id, { after: null, limit: 9, order: 'asc' }, null);
  expect(Object(page).data.map((item: unknown) => textOf(item).length > 5_000_000)).toEqual([true, true]);
});

it('settings that are longer are refused in the background, and nothing stays', async () => {
  const harness = new ResponsesHarness();
  const instructions = 'x'.repeat(3_000_000);
  const conversation = await harness.conversation(null);
  await expect(harness.create({ instructions, conversation })).rejects.toThrow(
    'The instructions, tools and other settings of this response are too long',
  );
  expect(harness.database.prepare(`SELECT count(*) AS n FROM responses`).get()).toEqual({ n: 0 });
  expect(harness.database.prepare(`SELECT count(*) AS n FROM items`).get()).toEqual({ n: 0 });
  const { asked, said } = await harness.begin({ conversation });
  expect(said).toEqual({ history: [] });
  // A response whose caller waits for it has them in pieces.
  const ended = { ...ending('said'), body: JSON.stringify({ instructions }) };
  expect(await harness.object.keep(asked, ended, null)).toBe(true);
  expect(Object(await harness.object.get(asked.id, null)).response.instructions).toBe(instructions);
});
