import { expect, it } from 'vitest';
import { ResponsesHarness } from '../../support/responses-harness.ts';

const ANY = { status: null, tenant: null, model: null, conversation_id: null };
const wanted = (more: object = {}) => ({
  ...{ filter: ANY, id: null, since: null, until: null, viewer: null, before: null, limit: 2 },
  ...more,
});

it('lists responses newest first, page by page, and to each tenant its own', async () => {
  const harness = new ResponsesHarness();
  const ids: string[] = [];
  for (const tenant of ['one', 'two', 'one']) ids.unshift((await harness.create({}, tenant)).id);
  const first = await harness.object.list(wanted());
  expect(first.responses.map(({ id }) => id)).toEqual(ids.slice(0, 2));
  const second = await harness.object.list(wanted({ before: first.next }));
  expect([second.responses.map(({ id }) => id), second.next]).toEqual([ids.slice(2), null]);
  const of = async (more: object) =>
    (await harness.object.list(wanted({ limit: 9, ...more }))).responses.map(({ id }) => id);
  expect(await of({ viewer: 'two' })).toEqual([ids[1]]);
  // What a tenant asks for does not lead to the responses of another one.
  expect(await of({ viewer: 'two', filter: { ...ANY, tenant: 'one' } })).toEqual([ids[1]]);
  expect(await of({ id: ids[0]!.slice(0, 20) })).toEqual([ids[0]]);
  expect(await of({ filter: { ...ANY, status: 'completed' } })).toEqual([]);
  expect(await of({ until: 0 })).toEqual([]);
});

it('shows one with its chain, to its tenant alone', async () => {
  const harness = new ResponsesHarness();
  const worker = harness.queue.worker('w', { capacity: 10 });
  const chain: string[] = [];
  for (let turn = 0; turn < 3; turn += 1) {
    const previous = chain[0] === undefined ? {} : { previous_response_id: chain[0] };
    chain.unshift((await harness.create(previous, 'one')).id);
    harness.result(worker, { id: 'resp_engine', object: 'response', status: 'completed', output: [] });
    await harness.advance(1000);
  }
  const place = await harness.object.place(chain[0]!, 'one');
  expect(place).toMatchObject({ response: { id: chain[0] }, is_cut: false, conversation: null });
  expect(place!.chain.map(({ id }) => id)).toEqual(chain.slice(1));
  expect(await harness.object.place(chain[0]!, 'two')).toBeNull();
  await harness.object.remove(chain[1]!, 'one');
  expect(await harness.object.place(chain[0]!, null)).toMatchObject({ chain: [], is_cut: true });
});
