import { expect, it } from 'vitest';
import { unpackItems } from '../../../src/features/responses/item-list.ts';
import type { Fields } from '../../../src/features/responses/types.ts';
import { ending, ResponsesHarness } from '../../support/responses-harness.ts';

/** Responses and conversations that go on from each other in any way, and are deleted in any order. */
const SEEDS = [1, 2, 3, 4, 5, 6, 7, 8];
const STEPS = 150;

it.each(SEEDS)('deletes exactly the items that nothing has any more (seed %s)', async (seed) => {
  const harness = new ResponsesHarness();
  let state = seed;
  const below = (most: number) => {
    state = (state * 48271) % 2147483647;
    return state % most;
  };
  const responses: string[] = [];
  const conversations: string[] = [];
  const oneOf = (list: string[]) => list[below(list.length)];

  const add = async (body: Fields) => {
    const instructions = ['be kind', 'be brief'][below(2)];
    const { asked, said } = await harness.begin({ input: below(9) === 0 ? [] : 'asked', ...body });
    if ('status' in said) return;
    const status = below(9) === 0 ? 'failed' : 'completed';
    const ended = { ...ending('said', status), body: JSON.stringify({ instructions }) };
    await harness.object.keep(asked, status === 'failed' ? { ...ended, output: [] } : ended, null);
    responses.push(asked.id);
  };
  const steps = [
    () => add({}),
    () => add({ previous_response_id: oneOf(responses) }),
    () => add({ previous_response_id: oneOf(responses) }),
    () => add({ conversation: oneOf(conversations) }),
    async () => void conversations.push(await harness.conversation(null, 'one', 'two')),
    async () => {
      const id = oneOf(conversations) ?? '';
      const page = await harness.object.conversationItems(id, { after: null, limit: 50, order: 'asc' }, null);
      const [item] = (Object(page) as { data?: { id: string }[] }).data ?? [];
      if (item) await harness.object.removeItem(id, item.id, null);
    },
    async () => {
      if (below(4) === 0) await harness.object.removeConversation(oneOf(conversations) ?? '', null);
    },
    ...Array.from({ length: 3 }, () => async () => {
      if (responses.length > 0) await harness.object.remove(oneOf(responses)!, null);
    }),
  ];
  const rows = (query: string) => harness.database.prepare(query).all();
  for (let step = 0; step < STEPS; step++) {
    await steps[below(steps.length)]!();
    const used = new Set([
      ...rows('SELECT history, input, output FROM responses')
        .flatMap((row) => Object.values(row))
        .flatMap((list) => unpackItems(list as Uint8Array)),
      ...rows('SELECT items FROM conversations').flatMap(({ items }) => unpackItems(items as Uint8Array)),
      ...rows('SELECT shape FROM responses WHERE shape IS NOT NULL').map(({ shape }) => Number(shape)),
    ]);
    const stored = rows('SELECT number FROM items').map(({ number }) => Number(number));
    const missing = [...used].filter((number) => !stored.includes(number));
    expect([step, missing, stored.filter((number) => !used.has(number))]).toEqual([step, [], []]);
  }
});
