/** This file has `/v1/responses` as vLLM 0.32.0 answers it, which stores nothing unless it is told to. */
import { randomBytes } from 'node:crypto';
import type { Body } from './fields.ts';
import { type GenerationRequest, readChat } from './requests.ts';
import type { Finish } from './scheduler.ts';
import { type AnswerHead, namedEvent, type Shapes, type Usage } from './shapes.ts';

/** Reads a body of `/v1/responses`. @throws ApiError */
export function readResponses(body: Body, servedNames: readonly string[]): GenerationRequest {
  const { input, instructions, max_output_tokens, previous_response_id: _before, ...rest } = body;
  const asked = typeof input === 'string' ? [{ role: 'user', content: input }] : input;
  const messages = Array.isArray(asked)
    ? [...(instructions ? [{ role: 'system', content: instructions }] : []), ...asked.map(asMessage)]
    : asked;
  const chat = {
    ...rest,
    messages,
    max_tokens: max_output_tokens,
    stream_options: undefined,
    request_id: undefined,
  };
  return { ...readChat(chat, servedNames), continuousUsage: true };
}

function asMessage(item: Body): Body {
  if (!Array.isArray(item?.content)) return item;
  const content = item.content.map(({ text }: Body) => ({ type: 'text', text }));
  return { role: item.role, content };
}

export const responseShapes: Shapes = {
  idPrefix: 'resp_',
  // The engine gives a response an id of its own, whatever the id of the request.
  newId: () => randomBytes(16).toString('hex'),
  done: '',
  error: (error) => namedEvent('error', { type: 'error', ...(error.body as object) }),
  opening: (head) => {
    const response = responseBody(head, 'in_progress', null, null, null);
    const item = { ...itemOf(head, ''), status: 'in_progress', content: [] };
    return (
      namedEvent('response.created', { response, sequence_number: 0, type: 'response.created' }) +
      namedEvent('response.in_progress', { response, sequence_number: 1, type: 'response.in_progress' }) +
      namedEvent('response.output_item.added', {
        item,
        output_index: 0,
        sequence_number: 2,
        type: 'response.output_item.added',
      }) +
      namedEvent('response.content_part.added', {
        content_index: 0,
        item_id: item.id,
        output_index: 0,
        part: { annotations: [], text: '', type: 'output_text', logprobs: [] },
        sequence_number: 3,
        type: 'response.content_part.added',
      })
    );
  },
  text: (head) => {
    const place = { content_index: 0, item_id: itemOf(head, '').id, output_index: 0 };
    let whole = '';
    let number = 4;
    return (delta, finish, _closes, usage) => {
      whole += delta;
      const event = (type: string, fields: object) =>
        namedEvent(type, { ...fields, sequence_number: number++, type });
      const piece = event('response.output_text.delta', { ...place, delta, logprobs: [] });
      if (!finish) return piece;
      const item = itemOf(head, whole);
      const response = responseBody(head, 'completed', item, usage, finish);
      return (
        piece +
        event('response.output_text.done', { ...place, logprobs: [], text: whole }) +
        event('response.content_part.done', { ...place, part: item.content[0] }) +
        event('response.output_item.done', { item, output_index: 0 }) +
        event('response.completed', { response })
      );
    };
  },
  usage: () => '',
  whole: (head, [choice], usage) =>
    responseBody(head, 'completed', itemOf(head, choice!.text), usage, choice!.finish),
};

function itemOf({ id }: AnswerHead, text: string) {
  return {
    id: `msg_${id.slice('resp_'.length)}`,
    content: [{ annotations: [], text, type: 'output_text', logprobs: null }],
    role: 'assistant',
    status: 'completed',
    type: 'message',
  };
}

function responseBody(
  { id, model, created }: AnswerHead,
  status: string,
  item: object | null,
  usage: Usage | null,
  finish: Finish | null,
): Body {
  const isCut = finish?.reason === 'length';
  return {
    id,
    created_at: created,
    incomplete_details: isCut ? { reason: 'max_output_tokens' } : null,
    instructions: null,
    metadata: null,
    model,
    object: 'response',
    output: item === null ? [] : [item],
    parallel_tool_calls: true,
    temperature: 1.0,
    tool_choice: 'auto',
    tools: [],
    top_p: 1.0,
    background: false,
    max_output_tokens: null,
    previous_response_id: null,
    service_tier: 'auto',
    status: isCut ? 'incomplete' : status,
    truncation: 'disabled',
    usage: usage && {
      input_tokens: usage.prompt,
      output_tokens: usage.completion,
      total_tokens: usage.prompt + usage.completion,
      input_tokens_details: { cached_tokens: 0 },
      output_tokens_details: { reasoning_tokens: 0 },
    },
    user: null,
  };
}
