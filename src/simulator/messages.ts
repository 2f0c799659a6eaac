/** This file has `/v1/messages`, Anthropic's form, as vLLM 0.32.0 answers it. */
import type { ApiError } from './errors.ts';
import { type GenerationRequest, readChat } from './requests.ts';
import type { Finish } from './scheduler.ts';
import { namedEvent, type Shapes } from './shapes.ts';

type Body = Record<string, unknown>;

/** Reads a body of `/v1/messages`, or of `/v1/messages/count_tokens`. @throws ApiError */
export function readMessages(body: Body, servedNames: readonly string[]): GenerationRequest {
  const { system, stop_sequences, ...rest } = body;
  const { messages } = body;
  const all =
    system === undefined || !Array.isArray(messages)
      ? messages
      : [{ role: 'system', content: system }, ...messages];
  const chat: Body = { ...rest, messages: all, stop: stop_sequences };
  // Events of this form always carry the usage so far.
  return { ...readChat(chat, servedNames), continuousUsage: true };
}

/** Returns an error in the form of Anthropic's API. */
export function messagesError({ type, message }: ApiError): unknown {
  return { type: 'error', error: { type, message } };
}

export const messageShapes: Shapes = {
  idPrefix: 'msg_',
  done: '',
  error: (error) => namedEvent('error', messagesError(error) as object),
  opening: ({ id, model }, _index, usage) =>
    namedEvent('message_start', {
      type: 'message_start',
      message: {
        id,
        type: 'message',
        role: 'assistant',
        content: [],
        model,
        stop_reason: null,
        stop_sequence: null,
        usage: { input_tokens: usage?.prompt ?? 0, output_tokens: 0 },
      },
    }) +
    namedEvent('content_block_start', {
      type: 'content_block_start',
      index: 0,
      content_block: { type: 'text', text: '' },
    }),
  text: () => (text, finish, _closes, usage) => {
    const delta = namedEvent('content_block_delta', {
      type: 'content_block_delta',
      index: 0,
      delta: { type: 'text_delta', text },
    });
    if (!finish) return delta;
    return (
      delta +
      namedEvent('content_block_stop', { type: 'content_block_stop', index: 0 }) +
      namedEvent('message_delta', {
        type: 'message_delta',
        delta: stopOf(finish),
        usage: { input_tokens: usage?.prompt ?? 0, output_tokens: usage?.completion ?? 0 },
      }) +
      namedEvent('message_stop', { type: 'message_stop' })
    );
  },
  usage: () => '',
  whole: ({ id, model }, [choice], usage) => ({
    id,
    type: 'message',
    role: 'assistant',
    content: [{ type: 'text', text: choice!.text }],
    model,
    ...stopOf(choice!.finish),
    usage: { input_tokens: usage.prompt, output_tokens: usage.completion },
  }),
};

function stopOf({ reason, stopReason }: Finish) {
  if (reason === 'length') return { stop_reason: 'max_tokens', stop_sequence: null };
  return { stop_reason: stopReason === null ? 'end_turn' : 'stop_sequence', stop_sequence: stopReason };
}
