import { accumulateResponse } from 'openai/lib/responses/ResponseAccumulator';
import type { Response, ResponseStreamEvent } from 'openai/resources/responses/responses';
import { describe, expect, it } from 'vitest';
import { EventMaker, type EventMakerOptions } from '../../../src/features/responses/event-maker.ts';
import { remainder } from '../../../src/features/responses/remainder.ts';
import { type ResponseEvent, saidOf } from '../../../src/features/responses/said.ts';
import type { Fields } from '../../../src/features/responses/types.ts';

/** The events that are made of a chat completion are those that OpenAI's own client puts together again. */

const HEAD = { id: 'resp_1', object: 'response', created_at: 1, model: 'tiny', tools: [] };
const USAGE = {
  prompt_tokens: 7,
  completion_tokens: 5,
  total_tokens: 12,
  prompt_tokens_details: { cached_tokens: 4 },
  completion_tokens_details: { reasoning_tokens: 2 },
};

const delta = (fields: Fields, more: Fields = {}) => ({ choices: [{ index: 0, delta: fields, ...more }] });
const call = (index: number, fn: Fields, id?: string) => delta({ tool_calls: [{ index, id, function: fn }] });
const finish = (reason: string) => delta({}, { finish_reason: reason });
const usage = { choices: [], usage: USAGE };

const CHATS: Record<string, Fields[]> = {
  text: [
    delta({ role: 'assistant', content: '' }),
    delta({ content: 'Hel' }),
    delta({ content: 'lo' }),
    finish('stop'),
    usage,
  ],
  reasoning: [
    delta({ reasoning_content: 'Let me ' }),
    delta({ reasoning: 'think.' }),
    delta({ content: 'Yes' }),
    finish('stop'),
    usage,
  ],
  calls: [
    delta({ content: 'I look.' }),
    call(0, { name: 'read', arguments: '' }, 'call_a'),
    call(0, { arguments: '{"path":' }),
    call(1, { name: 'list', arguments: '{' }, 'call_b'),
    call(0, { arguments: '"x"}' }),
    call(1, { arguments: '}' }),
    finish('tool_calls'),
    usage,
  ],
  refusal: [delta({ content: 'Well, ' }), delta({ refusal: 'I will not.' }), finish('stop')],
  nothing: [finish('stop'), usage],
  cut: [delta({ content: 'Hel' }), finish('length'), usage],
};

function made(chat: readonly Fields[], options: EventMakerOptions = { next: 0 }): ResponseEvent[] {
  const maker = new EventMaker(HEAD, options);
  return [...maker.begin(), ...chat.flatMap((chunk) => maker.chunk(chunk)), ...maker.end()];
}

function accumulated(events: readonly ResponseEvent[]): Response {
  let response: Response | undefined;
  for (const event of events)
    response = accumulateResponse(event as unknown as ResponseStreamEvent, response);
  return response!;
}

/** The output as the events before the last one say it, and as the last one does. */
function outputs(events: readonly ResponseEvent[]): [unknown, unknown] {
  const { output } = events.at(-1)!.response as Fields;
  return [plain(accumulated(events.slice(0, -1)).output), plain(output)];
}

/** What the client adds to a snapshot for its own use is left out. */
function plain(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value));
}

describe('the events of a chat completion', () => {
  it.each(Object.entries(CHATS))('make the same output piece by piece and at the end: %s', (_, chat) => {
    const events = made(chat);
    const [before, end] = outputs(events);
    expect(before).toEqual(end);
    expect(events.map(({ sequence_number }) => sequence_number)).toEqual(events.map((_, at) => at));
  });

  it('are OpenAI’s, in its order', () => {
    expect(made(CHATS.reasoning!).map(({ type }) => type.slice('response.'.length))).toEqual([
      'created',
      'in_progress',
      'output_item.added',
      'content_part.added',
      'reasoning_text.delta',
      'reasoning_text.delta',
      'reasoning_text.done',
      'content_part.done',
      'output_item.done',
      'output_item.added',
      'content_part.added',
      'output_text.delta',
      'output_text.done',
      'content_part.done',
      'output_item.done',
      'completed',
    ]);
  });

  it('end a response as the chat ended, with its usage', () => {
    const last = (chat: Fields[]) => made(chat).at(-1)!;
    expect(last(CHATS.text!)).toMatchObject({
      type: 'response.completed',
      response: {
        status: 'completed',
        usage: {
          input_tokens: 7,
          input_tokens_details: { cached_tokens: 4 },
          output_tokens: 5,
          output_tokens_details: { reasoning_tokens: 2 },
          total_tokens: 12,
        },
      },
    });
    expect(last(CHATS.cut!)).toMatchObject({
      type: 'response.incomplete',
      response: {
        status: 'incomplete',
        incomplete_details: { reason: 'max_output_tokens' },
        output: [{ type: 'message', status: 'incomplete', content: [{ text: 'Hel' }] }],
      },
    });
    expect(last([finish('content_filter')])).toMatchObject({
      response: { incomplete_details: { reason: 'content_filter' } },
    });
  });

  it('keep the arguments of calls apart that an engine writes side by side', () => {
    expect((made(CHATS.calls!).at(-1)!.response as Fields).output).toMatchObject([
      { type: 'message', status: 'completed' },
      { type: 'function_call', call_id: 'call_a', name: 'read', arguments: '{"path":"x"}' },
      { type: 'function_call', call_id: 'call_b', name: 'list', arguments: '{}' },
    ]);
  });

  it('have the input of a custom tool, and the namespace of a function', () => {
    const chat = [
      call(0, { name: 'patch', arguments: '{"inp' }),
      call(0, { arguments: 'ut":"*** Begin"}' }),
      call(1, { name: 'crm__find', arguments: '{}' }),
      finish('tool_calls'),
    ];
    const events = made(chat, {
      toolOf: (name) =>
        name === 'patch' ? { type: 'custom', name } : { type: 'function', name: 'find', namespace: 'crm' },
    });
    expect(events[0]).not.toHaveProperty('sequence_number');
    expect((events.at(-1)!.response as Fields).output).toMatchObject([
      {
        type: 'custom_tool_call',
        name: 'patch',
        input: '*** Begin',
        call_id: expect.stringMatching(/^call_/),
      },
      { type: 'function_call', name: 'find', namespace: 'crm', arguments: '{}' },
    ]);
    const [before, end] = outputs(events);
    expect(before).toEqual(end);
  });

  it('read a whole completion as they read its stream', () => {
    const message = {
      content: 'Hello',
      reasoning_content: 'Hm',
      tool_calls: [{ id: 'c', function: { name: 'f', arguments: '{}' } }],
    };
    const whole = { choices: [{ message, finish_reason: 'tool_calls' }], usage: USAGE };
    expect((made([whole]).at(-1)!.response as Fields).output).toMatchObject([
      { type: 'reasoning', content: [{ type: 'reasoning_text', text: 'Hm' }] },
      { type: 'message', content: [{ text: 'Hello' }] },
      { type: 'function_call', call_id: 'c', arguments: '{}' },
    ]);
  });

  it('of one that failed end with the reason and what there is of the output', () => {
    const maker = new EventMaker(HEAD);
    maker.begin();
    maker.chunk(delta({ content: 'Hel' }));
    expect(maker.fail({ code: 'server_error', message: 'gone' })).toMatchObject([
      {
        type: 'response.failed',
        response: {
          status: 'failed',
          error: { code: 'server_error', message: 'gone' },
          output: [{ status: 'incomplete', content: [{ text: 'Hel' }] }],
        },
      },
    ]);
  });
});

describe('the remainder of a response', () => {
  it.each(Object.entries(CHATS))('completes its events, wherever they were cut: %s', (_, chat) => {
    const whole = made(chat);
    const final = whole.at(-1)!.response as Fields;
    for (let cut = 2; cut < whole.length; cut++) {
      const said = whole.slice(0, cut);
      const rest = remainder(saidOf(said), final, cut)!;
      expect([cut, plain(accumulated([...said, ...rest]).output)]).toEqual([cut, final.output]);
      const [before] = outputs([...said, ...rest]);
      expect([cut, before]).toEqual([cut, final.output]);
      expect(rest.map(({ sequence_number }) => sequence_number)).toEqual(rest.map((_, at) => cut + at));
      expect(rest.at(-1)!.type).toBe(`response.${String(final.status)}`);
    }
    expect(remainder(saidOf(whole), final)).toEqual([]);
  });

  it('is the rest of each text in one piece', () => {
    const final = made(CHATS.text!).at(-1)!.response as Fields;
    const said = made(CHATS.text!).slice(0, 4);
    const [{ id }] = final.output as [{ id: string }];
    const rest = remainder(saidOf(said), final)!;
    const [{ item }] = said.slice(2) as unknown as [{ item: { id: string } }];
    // Another run of the maker gave other ids; those that were said stay.
    expect(item.id).not.toBe(id);
    expect(rest[0]).toMatchObject({ type: 'response.output_text.delta', delta: 'Hello', item_id: item.id });
    expect(rest.at(-1)).toMatchObject({ response: { output: [{ id: item.id }] } });
  });

  it('is null if something else was said', () => {
    const final = made(CHATS.text!).at(-1)!.response as Fields;
    const other = (chat: Fields[]) => remainder(saidOf(made(chat).slice(0, -1)), final);
    expect(other([delta({ content: 'Hex' })])).toBeNull();
    expect(other([delta({ content: 'Hello you' })])).toBeNull();
    expect(other([delta({ reasoning: 'Hel' })])).toBeNull();
    expect(other([delta({ content: 'Hello' }), call(0, { name: 'f' }, 'c')])).toBeNull();
  });

  it('of a failed one is its last event alone, and of a cancelled one nothing', () => {
    const said = () => saidOf(made(CHATS.text!).slice(0, 5));
    const failed = { status: 'failed', output: [], error: { code: 'server_error', message: 'x' } };
    expect(remainder(said(), failed, 5)).toMatchObject([{ type: 'response.failed', sequence_number: 5 }]);
    expect(remainder(said(), { status: 'cancelled', output: [] })).toEqual([]);
  });
});
