import { describe, expect, it } from 'vitest';
import type { Fields } from '../../../src/features/responses/types.ts';
import { chatRequestOf } from '../../../src/features/responses/worker/chat-request.ts';
import { Unsayable } from '../../../src/features/responses/worker/unsayable.ts';

/** A request for a response is said as a chat, or refused with a reason. */

const chatOf = (body: Fields) => chatRequestOf({ model: 'tiny', ...body }).chat;
const messagesOf = (input: unknown, more: Fields = {}) => chatOf({ input, ...more }).messages;

describe('the input of a response', () => {
  it('is a message of the user if it is a text', () => {
    expect(messagesOf('hi')).toEqual([{ role: 'user', content: 'hi' }]);
  });

  it('begins with all instructions in one message, since many templates take one alone', () => {
    const input = [
      { role: 'developer', content: [{ type: 'input_text', text: 'Be kind.' }] },
      { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'hi' }] },
      { role: 'system', content: 'Now in French.' },
    ];
    expect(messagesOf(input, { instructions: 'Be brief.' })).toEqual([
      { role: 'system', content: 'Be brief.\n\nBe kind.' },
      { role: 'user', content: 'hi' },
      { role: 'system', content: 'Now in French.' },
    ]);
  });

  it('has a turn of the assistant as one message: what it thought, said and called', () => {
    const input = [
      { role: 'user', content: 'read a and b' },
      {
        type: 'reasoning',
        id: 'rs_1',
        summary: [],
        content: [{ type: 'reasoning_text', text: 'Two files.' }],
      },
      {
        type: 'message',
        role: 'assistant',
        content: [{ type: 'output_text', text: 'I look.', annotations: [] }],
      },
      { type: 'function_call', call_id: 'c1', name: 'read', arguments: '{"path":"a"}' },
      { type: 'function_call', call_id: 'c2', name: 'read', arguments: '{"path":"b"}' },
      { type: 'function_call_output', call_id: 'c1', output: 'A' },
      { type: 'function_call_output', call_id: 'c2', output: [{ type: 'input_text', text: 'B' }] },
      { type: 'reasoning', summary: [{ type: 'summary_text', text: 'Done.' }] },
      { type: 'custom_tool_call', call_id: 'c3', name: 'patch', input: '*** Begin' },
      { type: 'custom_tool_call_output', call_id: 'c3', output: 'ok' },
      { type: 'reasoning', summary: [], encrypted_content: 'gAAAA' },
      { role: 'assistant', content: 'Both.' },
    ];
    const called = (id: string, name: string, args: string) => ({
      id,
      type: 'function',
      function: { name, arguments: args },
    });
    expect(messagesOf(input)).toEqual([
      { role: 'user', content: 'read a and b' },
      {
        role: 'assistant',
        reasoning_content: 'Two files.',
        content: 'I look.',
        tool_calls: [called('c1', 'read', '{"path":"a"}'), called('c2', 'read', '{"path":"b"}')],
      },
      { role: 'tool', tool_call_id: 'c1', content: 'A' },
      { role: 'tool', tool_call_id: 'c2', content: 'B' },
      {
        role: 'assistant',
        reasoning_content: 'Done.',
        tool_calls: [called('c3', 'patch', '{"input":"*** Begin"}')],
      },
      { role: 'tool', tool_call_id: 'c3', content: 'ok' },
      { role: 'assistant', content: 'Both.' },
    ]);
  });

  it('keeps images, sounds and files', () => {
    const content = [
      { type: 'input_text', text: 'what is it?' },
      { type: 'input_image', image_url: 'data:image/png;base64,AA', detail: 'low' },
      { type: 'input_audio', input_audio: { data: 'AA', format: 'wav' } },
      { type: 'input_file', file_data: 'data:application/pdf;base64,AA', filename: 'a.pdf' },
    ];
    expect(messagesOf([{ role: 'user', content }])).toEqual([
      {
        role: 'user',
        content: [
          { type: 'text', text: 'what is it?' },
          { type: 'image_url', image_url: { url: 'data:image/png;base64,AA', detail: 'low' } },
          { type: 'input_audio', input_audio: { data: 'AA', format: 'wav' } },
          { type: 'file', file: { file_data: 'data:application/pdf;base64,AA', filename: 'a.pdf' } },
        ],
      },
    ]);
  });
});

describe('the fields of a response', () => {
  it('have their names in a chat, and those of no chat are left out', () => {
    const body = {
      input: 'hi',
      stream: true,
      max_output_tokens: 9,
      reasoning: { effort: 'low', summary: 'auto' },
      text: {
        format: { type: 'json_schema', name: 'x', schema: { type: 'object' }, strict: true },
        verbosity: 'low',
      },
      temperature: 0.5,
      top_p: 0.9,
      parallel_tool_calls: false,
      top_logprobs: 2,
      top_k: 5,
      stop: ['x'],
      // The rest concerns no chat.
      ...{
        metadata: { a: 'b' },
        include: ['reasoning.encrypted_content'],
        store: true,
        service_tier: 'auto',
      },
      ...{ prompt_cache_key: 'k', client_metadata: {}, user: 'u', truncation: 'disabled', background: false },
    };
    expect(chatOf(body)).toEqual({
      model: 'tiny',
      messages: [{ role: 'user', content: 'hi' }],
      stream: true,
      stream_options: { include_usage: true },
      max_tokens: 9,
      reasoning_effort: 'low',
      response_format: {
        type: 'json_schema',
        json_schema: { name: 'x', schema: { type: 'object' }, strict: true },
      },
      temperature: 0.5,
      top_p: 0.9,
      parallel_tool_calls: false,
      logprobs: true,
      top_logprobs: 2,
      top_k: 5,
      stop: ['x'],
    });
    expect(chatOf({ input: 'hi', text: { format: { type: 'text' } } })).not.toHaveProperty('response_format');
  });

  it('are repeated by the response', () => {
    const { response } = chatRequestOf({ model: 'tiny', input: 'hi', instructions: 'x', temperature: 1 });
    expect(response).toMatchObject({
      id: expect.stringMatching(/^resp_/),
      object: 'response',
      instructions: 'x',
      temperature: 1,
      tools: [],
      tool_choice: 'auto',
    });
  });

  it('name tools as functions, also those of a namespace and those whose input is a text', () => {
    const parameters = { type: 'object', properties: {} };
    const { chat, toolOf } = chatRequestOf({
      input: 'hi',
      tools: [
        { type: 'function', name: 'read', description: 'Reads.', parameters, strict: true },
        { type: 'custom', name: 'patch', description: 'Patches.', format: { type: 'text' } },
        {
          type: 'namespace',
          name: 'crm',
          description: '',
          tools: [{ type: 'function', name: 'find', parameters }],
        },
      ],
      tool_choice: { type: 'function', name: 'find', namespace: 'crm' },
    });
    expect(chat.tools).toMatchObject([
      { type: 'function', function: { name: 'read', description: 'Reads.', parameters, strict: true } },
      { type: 'function', function: { name: 'patch', parameters: { required: ['input'] } } },
      { type: 'function', function: { name: 'crm__find', parameters } },
    ]);
    expect(chat.tool_choice).toEqual({ type: 'function', function: { name: 'crm__find' } });
    expect([toolOf('patch'), toolOf('crm__find'), toolOf('other')]).toEqual([
      { type: 'custom', name: 'patch' },
      { type: 'function', name: 'find', namespace: 'crm' },
      { type: 'function', name: 'other' },
    ]);
    const allowed = { type: 'allowed_tools', mode: 'required', tools: [{ type: 'function', name: 'b' }] };
    const two = [
      { type: 'function', name: 'a' },
      { type: 'function', name: 'b' },
    ];
    expect(chatOf({ input: 'hi', tools: two, tool_choice: allowed })).toMatchObject({
      tool_choice: 'required',
      tools: [{ function: { name: 'b' } }],
    });
    expect(chatOf({ input: 'hi', tools: [], tool_choice: 'auto' })).not.toHaveProperty('tool_choice');
  });

  it.each([
    [{ tools: [{ type: 'function', name: 'f' }, { type: 'web_search' }] }, 'tools[1]', /"web_search".*vLLM/],
    [{ tools: [{ type: 'file_search' }] }, 'tools[0]', /"file_search".*function/],
    [{ tools: [{ type: 'mcp', server_label: 'x' }] }, 'tools[0]', /"mcp".*vLLM/],
    [{ tools: [{ type: 'computer' }] }, 'tools[0]', /"computer"/],
    [
      {
        tools: [
          { type: 'custom', name: 'patch', format: { type: 'grammar', syntax: 'lark', definition: '' } },
        ],
      },
      'tools[0].format',
      /"patch" with a grammar.*function/,
    ],
    [{ tools: [{ type: 'function', name: 'f' }], tool_choice: { type: 'mcp' } }, 'tool_choice', /"mcp"/],
    [{ previous_response_id: 'resp_1' }, 'previous_response_id', /queue/],
    [{ background: true }, 'background', /queue/],
    [{ prompt: { id: 'p' } }, 'prompt', /text/],
    [{ input: [{ type: 'item_reference', id: 'x' }] }, 'input[0]', /"item_reference"/],
    [
      { input: [{ role: 'user', content: [{ type: 'input_image', file_id: 'f' }] }] },
      'input[0].content[0]',
      /"input_image"/,
    ],
  ])('that no chat can say are refused by name (%#)', (body, param, words) => {
    const refusal = (() => {
      try {
        return chatOf({ input: 'hi', ...body });
      } catch (error) {
        return error;
      }
    })();
    expect(refusal).toBeInstanceOf(Unsayable);
    expect(refusal).toMatchObject({ param, message: expect.stringMatching(words) });
  });
});
