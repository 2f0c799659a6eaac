import { expect, it } from 'vitest';
import { EventPipeline, Events } from '../../../src/worker/answers/events.ts';
import { TokenIds } from '../../../src/worker/answers/token-ids.ts';

const OPENING = `data: ${JSON.stringify({
  ...{ id: 'a', object: 'chunk', created: 1, model: 'm', prompt_token_ids: [1, 2] },
  choices: [{ index: 0, delta: { role: 'assistant', content: '' } }],
})}\n\n`;

/** What a reader finds in some events behind the opening of an answer. */
function read(text: string): { ids: number[] | null; text: string | null } {
  const reader = new TokenIds(false);
  expect(reader.read(Events.ofBytes(Buffer.from(OPENING)))).toMatchObject({ ids: [], stage: 'running' });
  const { ids, events } = reader.read(Events.ofBytes(Buffer.from(text)));
  return { ids, text: events && Buffer.from(events.bytes).toString() };
}

it.each([
  ['{"choices":[{"text":"é","token_ids":[7,8]}]}', [7, 8], '{"choices":[{"text":"é","token_ids":null}]}'],
  ['{"a":1,"token_ids" : [ 7 ,\t8 ] }', [7, 8], '{"a":1,"token_ids":null }'],
  ['{"prompt_token_ids":[1,2],"token_ids":[0]}', [0], '{"prompt_token_ids":null,"token_ids":null}'],
  ['{"token_ids":[],"token_ids":[131071]}', [131071], '{"token_ids":null,"token_ids":null}'],
])('ids are read and taken out: %s', (given, ids, left) => {
  expect(read(`data: ${given}\n\n`)).toEqual({ ids, text: `data: ${left}\n\n` });
});

it.each([
  '{"choices":[{"text":"a"}]}',
  '{"token_ids":null}',
  '{"token_ids":"[7]"}',
  '{"token_ids":[7.5]}',
  '{"token_ids":["7"]}',
  '{"token_ids":{"0":7}}',
  '{"my_token_ids":[7]}',
  '{"text":"\\"token_ids\\":[7]"}',
  '{"text":"token_ids","n":[7]}',
  '{"token_ids"',
  '{"token_ids":[7',
])('what is no list of ids stays as it is: %s', (given) => {
  expect(read(`data: ${given}\n\n`)).toEqual({ ids: [], text: `data: ${given}\n\n` });
});

it('a stream that needs no transform passes its bytes untouched', () => {
  const passed: Uint8Array[] = [];
  const pipeline = new EventPipeline([], ({ bytes }) => passed.push(bytes));
  const piece = Buffer.from(OPENING);
  pipeline.push(Events.ofBytes(piece));
  pipeline.end(false);
  expect(passed).toHaveLength(1);
  expect(passed[0]).toBe(piece);
});
