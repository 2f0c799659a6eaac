import { describe, expect, it } from 'vitest';
import { newResponse, readCreate } from '../../../src/features/responses/create-body.ts';
import { engineBody, ownFields } from '../../../src/features/responses/gateway/create.ts';
import { begunResponse, endedResponse } from '../../../src/features/responses/response-object.ts';
import type { Fields, Prepared } from '../../../src/features/responses/types.ts';
import { ResponsesHarness } from '../../support/responses-harness.ts';

const TURNS = 50;

/** What an agent sends again with each turn, and no item has. */
const INSTRUCTIONS = 'You are a careful assistant that answers from the files it is given. '.repeat(20);
const TOOLS = Array.from({ length: 5 }, (_, index) => ({
  type: 'function',
  name: `tool_${index}`,
  description: 'Reads a part of a file, given its path and the lines that are wanted. '.repeat(4),
  parameters: { type: 'object', properties: { path: { type: 'string' }, lines: { type: 'string' } } },
  strict: false,
}));

/** Some text of a length, other than any before. */
const words = (turn: number, length: number) =>
  `${turn}: ${'lorem ipsum dolor '.repeat(length)}`.slice(0, length);

/** The items that the model makes of a turn: now and then it calls a tool first. */
function outputOf(turn: number): Fields[] {
  const id = String(turn).padStart(32, '0');
  const part = {
    type: 'output_text',
    text: words(turn, 400 + ((turn * 2711) % 5600)),
    annotations: [],
    logprobs: [],
  };
  const message = {
    id: `msg_${id}`,
    type: 'message',
    role: 'assistant',
    status: 'completed',
    content: [part],
  };
  if (turn % 3 > 0) return [message];
  const call = { type: 'function_call', call_id: `call_${id}`, name: 'tool_1', arguments: '{"path":"a.ts"}' };
  return [{ id: `fc_${id}`, ...call, status: 'completed' }, message];
}

/** A conversation as its client has it. */
class Client {
  readonly items: Fields[] = [];
  readonly #harness: ResponsesHarness;
  #before: Fields;

  /** @param before what names the state that the first response goes on from */
  constructor(harness: ResponsesHarness, before: Fields = {}) {
    this.#harness = harness;
    this.#before = before;
  }

  /** Makes a response, whose engine gets all that was said before. @returns its id */
  async say(turn: number): Promise<string> {
    const content = [{ type: 'input_text', text: words(turn, 100 + ((turn * 1511) % 1900)) }];
    const input = [{ type: 'message', role: 'user', content }];
    const body: Fields = { model: 'tiny', instructions: INSTRUCTIONS, tools: TOOLS, input, ...this.#before };
    const fields = readCreate(body, true);
    const asked = newResponse('q', fields, { tenant: 'team', token_name: 'app' }, '{}');
    const terms = { job: 'j', stored_bytes: null, history_bytes: Number.MAX_SAFE_INTEGER };
    const prepared = (await this.#harness.object.prepare(asked, 'team', terms)) as Prepared;
    const sent = engineBody(new TextEncoder().encode(JSON.stringify(body)), fields, prepared);
    this.items.push(...input);
    expect(JSON.parse(new TextDecoder().decode(sent))).toEqual({
      model: 'tiny',
      instructions: INSTRUCTIONS,
      tools: TOOLS,
      input: this.items,
    });
    const output = outputOf(turn);
    this.items.push(...output);
    const whole = {
      ...begunResponse(body, ownFields(asked, fields.metadata), Date.UTC(2026, 0, 1) + turn * 1000),
      usage: {
        input_tokens: 1000 + turn,
        input_tokens_details: { cached_tokens: 900 },
        output_tokens: 700,
        output_tokens_details: { reasoning_tokens: 0 },
        total_tokens: 1700 + turn,
      },
      status: 'completed',
      output,
    };
    await this.#harness.object.keep(asked, endedResponse(whole), 'team');
    expect((await this.#harness.object.get(asked.id, 'team'))?.response).toEqual(whole);
    if (this.#before.conversation === undefined) this.#before = { previous_response_id: asked.id };
    return asked.id;
  }
}

/** Returns the bytes of the database, without pages that are free. */
function sizeOf({ database }: ResponsesHarness): number {
  const value = (pragma: string) => Number(Object.values(database.prepare(`PRAGMA ${pragma}`).get()!)[0]);
  return (value('page_count') - value('freelist_count')) * value('page_size');
}

describe.each(['previous_response_id', 'conversation'])(`chains of ${TURNS} turns by %s`, (by) => {
  it('take little more than what was said in them, and give engines all of it', async () => {
    const harness = new ResponsesHarness();
    const empty = sizeOf(harness);
    const clients = await Promise.all(
      Array.from({ length: 4 }, async () => {
        const before = by === 'conversation' ? { conversation: await harness.conversation('team') } : {};
        return new Client(harness, before);
      }),
    );
    const ids: string[] = [];
    for (let turn = 0; turn < TURNS; turn++) for (const client of clients) ids.push(await client.say(turn));
    const said = Buffer.byteLength(
      clients.flatMap(({ items }) => items.map((item) => JSON.stringify(item))).join(''),
    );
    const share = (sizeOf(harness) - empty) / said;
    expect(share).toBeLessThan(1.2);
    // All of it goes again.
    for (const id of ids) await harness.object.remove(id, 'team');
    if (by === 'conversation') return;
    expect(await harness.object.stored()).toEqual([]);
    for (const table of ['responses', 'items', 'item_pieces'])
      expect(harness.database.prepare(`SELECT count(*) AS n FROM ${table}`).get()).toEqual({ n: 0 });
  });
});

it('an item comes back as it was given, however long it is and whatever is in it', async () => {
  const harness = new ResponsesHarness();
  for (const text of ['ä😀'.repeat(3000), 'x'.repeat(499), '\ud83d', 'long '.repeat(100_000)]) {
    const id = await harness.conversation(null, text);
    const page = await harness.object.conversationItems(id, { after: null, limit: 1, order: 'asc' }, null);
    expect(page).toMatchObject({ data: [{ content: [{ type: 'input_text', text }] }] });
    await harness.object.removeConversation(id, null);
    expect(await harness.object.stored()).toEqual([]);
  }
});
