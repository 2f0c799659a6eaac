import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import OpenAI from 'openai';
import type { Tool } from 'openai/resources/responses/responses';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { until } from '../support/poll.ts';
import { readyWorker, startQueue, tearDown } from '../support/road.ts';

/** Responses over an engine that has chat completions alone: an agent does not notice. */

const SCRIPT = [
  { reasoning: 'I need the weather.', calls: [{ name: 'weather', arguments: { city: 'Zürich' } }] },
  { text: 'It is sunny in Zürich.' },
];

let url: string;
let client: OpenAI;
beforeAll(async () => {
  url = (await startQueue()).url;
  const script = join(mkdtempSync(join(tmpdir(), 'script-')), 'script.json');
  writeFileSync(script, JSON.stringify(SCRIPT));
  await readyWorker(url, 'w', { engineArgs: `--no-responses --script ${script}` });
  client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 });
});
afterAll(tearDown);

const parameters = { type: 'object', properties: { city: { type: 'string' } } };
const tools: Tool[] = [{ type: 'function', name: 'weather', parameters, strict: false }];

describe('an agent over an engine with chat alone', () => {
  it.each([false, true])('calls a tool and goes on from its output, streamed: %s', async (isStreamed) => {
    const ask = (body: { input: OpenAI.Responses.ResponseInput | string; previous_response_id?: string }) => {
      const asked = { model: 'tiny', tools, ...body };
      return isStreamed ? client.responses.stream(asked).finalResponse() : client.responses.create(asked);
    };
    const first = await ask({ input: 'How is the weather?' });
    expect(first.output).toMatchObject([
      { type: 'reasoning', content: [{ type: 'reasoning_text', text: 'I need the weather.' }] },
      { type: 'function_call', name: 'weather', arguments: '{"city":"Zürich"}' },
    ]);
    const [, call] = first.output as [unknown, { call_id: string }];
    const output = { type: 'function_call_output' as const, call_id: call.call_id, output: 'sunny' };
    const second = await ask({ input: [output], previous_response_id: first.id });
    expect([second.output_text, second.status]).toEqual(['It is sunny in Zürich.', 'completed']);
    const kept = await client.responses.retrieve(second.id);
    expect([kept.output_text, kept.previous_response_id]).toEqual([second.output_text, first.id]);
  });

  it('is refused what no chat can say, with the reason', async () => {
    const refused = await client.responses
      .create({ model: 'tiny', input: 'go', tools: [{ type: 'web_search' }] })
      .catch((error: unknown) => error);
    expect(refused).toMatchObject({
      status: 400,
      param: 'tools[0]',
      message: expect.stringMatching(/web_search/),
    });
  });

  it('is counted as its chat is', async () => {
    const tokens = async () => {
      const { total } = (await (await fetch(`${url}/api/usage`)).json()) as { total: { output: number } };
      return total.output;
    };
    const before = await tokens();
    const { usage } = await client.responses.create({ model: 'tiny', input: 'go', tools });
    await until(async () => (await tokens()) === before + usage!.output_tokens, 'it is counted');
  });
});
