import OpenAI from 'openai';
import type { ChatCompletionMessageParam } from 'openai/resources';
import type { ResponseInputItem, Tool } from 'openai/resources/responses/responses';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Simulator, startSimulator } from '../../src/simulator/index.ts';
import { CommandLineEnd, parseArguments } from '../../src/simulator/options.ts';
import { readScript } from '../../src/simulator/script.ts';

/** The simulator gives answers that a script has, with reasoning and calls of tools, over both of OpenAI's APIs. */

const script = readScript(
  JSON.stringify([
    {
      reasoning: 'Two files, I think.',
      text: 'I read both.',
      calls: [
        { name: 'read', arguments: { path: 'first.txt' } },
        { name: 'read', arguments: { path: 'second.txt' } },
      ],
    },
    {
      calls: [
        { name: 'patch', input: '*** Begin Patch' },
        { name: 'crm__find', arguments: {}, id: 'call_x' },
      ],
    },
    { text: 'Both say hello.' },
  ]),
);

let engine: Simulator;
let client: OpenAI;
beforeAll(async () => {
  engine = await startSimulator({ script, servedModelName: ['tiny'] });
  client = new OpenAI({ baseURL: `${engine.url}/v1`, apiKey: 'none', maxRetries: 0 });
});
afterAll(() => engine.close());

const parameters = { type: 'object', properties: {} };
const tools: Tool[] = [
  { type: 'function', name: 'read', parameters, strict: false },
  { type: 'custom', name: 'patch' },
  {
    type: 'namespace',
    name: 'crm',
    description: '',
    tools: [{ type: 'function', name: 'find', parameters }],
  },
];

describe('a script over /v1/responses', () => {
  it.each([false, true])('is given in turn by the conversation, streamed: %s', async (isStreamed) => {
    const input: ResponseInputItem[] = [{ role: 'user', content: 'go' }];
    const body = { model: 'tiny', input, tools };
    const answer = async () => {
      const response = isStreamed
        ? await client.responses.stream(body).finalResponse()
        : await client.responses.create(body);
      input.push(...(response.output as ResponseInputItem[]));
      for (const item of response.output) {
        if (item.type === 'function_call' || item.type === 'custom_tool_call')
          input.push({ type: `${item.type}_output`, call_id: item.call_id, output: 'hello' });
      }
      return response;
    };
    const first = await answer();
    expect(first.output).toMatchObject([
      { type: 'reasoning', content: [{ text: 'Two files, I think.' }] },
      { type: 'message', content: [{ text: 'I read both.' }] },
      { type: 'function_call', name: 'read', arguments: '{"path":"first.txt"}', status: 'completed' },
      { type: 'function_call', name: 'read', arguments: '{"path":"second.txt"}' },
    ]);
    expect((await answer()).output).toMatchObject([
      { type: 'custom_tool_call', name: 'patch', input: '*** Begin Patch' },
      { type: 'function_call', name: 'find', namespace: 'crm', arguments: '{}', call_id: 'call_x' },
    ]);
    const last = await answer();
    expect([last.output_text, last.status]).toEqual(['Both say hello.', 'completed']);
    expect(last.usage!.output_tokens).toBe(3);
    // After the last answer it is given again.
    expect((await answer()).output_text).toBe('Both say hello.');
  });

  it('streams arguments piece by piece', async () => {
    const deltas: string[] = [];
    const numbers: number[] = [];
    for await (const event of client.responses.stream({ model: 'tiny', input: 'go', tools })) {
      numbers.push((event as { sequence_number: number }).sequence_number);
      if (event.type === 'response.function_call_arguments.delta') deltas.push(event.delta);
    }
    expect(deltas.length).toBeGreaterThan(4);
    expect(deltas.join('')).toBe('{"path":"first.txt"}{"path":"second.txt"}');
    expect(numbers).toEqual(numbers.map((_, at) => at));
  });

  it('is cut where the most tokens are reached', async () => {
    const response = await client.responses.create({ model: 'tiny', input: 'go', max_output_tokens: 5 });
    expect(response).toMatchObject({
      status: 'incomplete',
      output: [{ type: 'reasoning' }, { type: 'message' }],
    });
    expect(response.output_text).toBe('I');
  });

  it('is refused without an input, by the name of that field', async () => {
    const asked = client.responses.create({ model: 'tiny' });
    await expect(asked).rejects.toMatchObject({ status: 400, param: 'body.input' });
  });
});

describe('a script over /v1/chat/completions', () => {
  const chatTools = [{ type: 'function' as const, function: { name: 'read', parameters } }];

  it.each([false, true])('is given in turn by the conversation, streamed: %s', async (isStreamed) => {
    const messages: ChatCompletionMessageParam[] = [{ role: 'user', content: 'go' }];
    const body = { model: 'tiny', messages, tools: chatTools };
    const answer = async () => {
      const completion = isStreamed
        ? await client.chat.completions.stream(body).finalChatCompletion()
        : await client.chat.completions.create(body);
      const { message, finish_reason: reason } = completion.choices[0]!;
      messages.push(message);
      for (const { id } of message.tool_calls ?? [])
        messages.push({ role: 'tool', tool_call_id: id, content: 'hello' });
      return { message, reason };
    };
    expect(await answer()).toMatchObject({
      reason: 'tool_calls',
      message: {
        content: 'I read both.',
        tool_calls: [
          { function: { name: 'read', arguments: '{"path":"first.txt"}' } },
          { function: { name: 'read', arguments: '{"path":"second.txt"}' } },
        ],
      },
    });
    expect(await answer()).toMatchObject({
      message: { tool_calls: [{ function: { arguments: '{"input":"*** Begin Patch"}' } }, {}] },
    });
    expect(await answer()).toMatchObject({ reason: 'stop', message: { content: 'Both say hello.' } });
  });

  it('has the reasoning beside the text', async () => {
    const completion = await client.chat.completions.create({
      model: 'tiny',
      messages: [{ role: 'user', content: 'go' }],
    });
    expect(completion.choices[0]!.message).toMatchObject({ reasoning: 'Two files, I think.' });
  });
});

describe('the command line', () => {
  it.each([
    ['[]', /one answer or more/],
    ['{"answers":[{"txt":"x"}]}', /answers\[0\].*"txt"/],
    ['[{}]', /answers\[0\]/],
    ['[{"calls":[{}]}]', /answers\[0\].*name/],
  ])('says what is wrong with a script: %s', (json, words) => {
    expect(() => readScript(json)).toThrow(words);
  });

  it('names a script that cannot be read, and takes the route away', async () => {
    expect(() => parseArguments(['--script', '/none.json'])).toThrow(CommandLineEnd);
    expect(() => parseArguments(['--script', '/none.json'])).toThrow(/--script.*none\.json/);
    const chatAlone = await startSimulator(parseArguments(['--no-responses', '--port', '0']));
    const asked = await fetch(`${chatAlone.url}/v1/responses`, { method: 'POST', body: '{}' });
    expect([asked.status, await asked.json()]).toEqual([404, { detail: 'Not Found' }]);
    await chatAlone.close();
  });
});
