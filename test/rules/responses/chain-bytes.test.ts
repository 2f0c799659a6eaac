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
const words = (turn: number, length: number) => `${turn}: ${'lorem ipsum dolor '.repeat(length)}`.slice(0, length);

/** The items that the model makes of a turn: now and then it calls a tool first. */
function outputOf(turn: number): Fields[] {
  const id = String(turn).padStart(32, '0');
  const part = { type: 'output_text', text: words(turn, 400 + (turn * 2711) % 5600), annotations: [], logprobs: [] };
  const message = { id: `msg_${id}`, type: 'message', role: 'assistant', status: 'completed', content: [part] };
  if (turn % 3 > 0) return [message];
  const call = { type: 'function_call', call_id: `call_${id}`, name: 'tool_1', arguments: '{"path":"a.ts"}' };
  return [{ id: `fc_${id}`, ...call, status: 'completed' }, message];
}

async function chain(next: (turn: number, before: string | null) => Promise<Fields>) {
  const harness = new ResponsesHarness();
  const number = (pragma: string) => Number(Object.values(harness.database.prepare(`PRAGMA ${pragma}`).get()!)[0]);
  const size = () => (number('page_count') - number('freelist_count')) * number('page_size');
  const empty = size();
  const items: Fields[] = [];
  let before: string | null = null;
  for (let turn = 0; turn < TURNS; turn++) {
    const input = [{ type: 'message', role: 'user', content: [{ type: 'input_text', text: words(turn, 100 + (turn * 1511) % 1900) }] }];
    const more = await next.call(harness, turn, before);
    const body: Fields = { model: 'tiny', instructions: INSTRUCTIONS, tools: TOOLS, input, ...more };
    const fields = readCreate(body, true);
    const asked = newResponse(fields, { tenant: 'team', token_name: 'app' }, '{}');
    const prepared = (await harness.object.prepare(asked, 'team', { job: 'j', stored_bytes: null })) as Prepared;
    const sent = engineBody(new TextEncoder().encode(JSON.stringify(body)), fields, prepared);
    items.push(...input);
    expect(JSON.parse(new TextDecoder().decode(sent)).input).toEqual(items);
    const output = outputOf(turn);
    items.push(...output);
    const usage = { input_tokens: 1000 + turn, output_tokens: 700, total_tokens: 1700 + turn };
    const whole = {
      ...begunResponse(body, ownFields(asked, fields.metadata), Date.UTC(2026, 0, 1) + turn),
      usage: { ...usage, input_tokens_details: { cached_tokens: 9 }, output_tokens_details: { reasoning_tokens: 0 } },
      status: 'completed',
      output,
    };
    await harness.object.keep(asked, endedResponse(whole), 'team');
    expect((await harness.object.get(asked.id, 'team'))?.response).toEqual(whole);
    before = asked.id;
  }
  const said = Buffer.byteLength(items.map((item) => JSON.stringify(item)).join(''));
  return { harness, said, stored: size() - empty, last: before! };
}

describe(`a chain of ${TURNS} turns`, () => {
  it('takes little more than what was said in it', async () => {
    const { harness, said, stored, last } = await chain(async (_, before) =>
      before === null ? {} : { previous_response_id: before },
    );
    console.log(stored, said, stored / said, await harness.object.stored(), harness.database.prepare('SELECT name, sum(payload) p, sum(unused) u, sum(pgsize) s, count(*) n from dbstat group by name order by s desc limit 8').all());
    expect(stored).toBeLessThan(1.2 * said);
    expect(last).toMatch(/^resp_/);
  });
});
