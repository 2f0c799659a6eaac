/**
 * This file has `/v1/responses` as vLLM 0.32.0 answers it with VLLM_ENABLE_RESPONSES_API_STORE: it stores all
 * responses.
 */
import { randomBytes } from 'node:crypto';
import { ApiError } from './errors.ts';
import type { Body } from './fields.ts';
import { type GenerationRequest, readChat } from './requests.ts';
import type { Finish, Receiver } from './scheduler.ts';
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

interface Kept {
  body: Body;
  /** Stops the generation; null: it has ended. */
  abort: (() => void) | null;
}

/** Stores this engine's responses. */
export class KeptResponses {
  readonly #kept = new Map<string, Kept>();

  /** Returns a stored response. @throws ApiError 404 */
  get(id: string): Body {
    return this.#find(id).body;
  }

  /** Cancels a response. @throws ApiError 404, 400 */
  cancel(id: string): Body {
    const kept = this.#find(id);
    if (kept.abort === null)
      throw new ApiError(400, 'invalid_request_error', 'Cannot cancel a synchronous response.');
    kept.abort();
    kept.body = { ...kept.body, status: 'cancelled' };
    return kept.body;
  }

  keep(body: Body, abort: (() => void) | null = null): Body {
    this.#kept.set(String(body.id), { body, abort });
    return body;
  }

  /** Returns the receiver for the answer of a request that goes on in the background. */
  receiver(head: AnswerHead, promptTokens: number): Receiver {
    let text = '';
    let tokens = 0;
    return {
      token: (piece, finish) => {
        text += piece;
        tokens += 1;
        const usage = { prompt: promptTokens, completion: tokens };
        if (finish) this.keep(responseBody(head, 'completed', itemOf(head, text), usage, finish));
      },
      flush: () => {},
      engineDied: () => {},
      cut: () => {},
    };
  }

  #find(id: string): Kept {
    const kept = this.#kept.get(id);
    if (kept) return kept;
    throw new ApiError(404, 'invalid_request_error', `Response with id '${id}' not found.`, 'response_id');
  }
}

/** Returns a response that is not finished. */
export function begunResponse(head: AnswerHead, status: 'queued' | 'in_progress'): Body {
  return responseBody(head, status, null, null, null);
}

/** Returns the shapes of responses. @param kept takes the finished responses */
export function responseShapes(kept: KeptResponses): Shapes {
  return {
    idPrefix: 'resp_',
    // The engine gives a response an id of its own, whatever the id of the request.
    newId: () => randomBytes(16).toString('hex'),
    done: '',
    error: (error) => namedEvent('error', { type: 'error', ...(error.body as object) }),
    opening: (head) => {
      const response = begunResponse(head, 'in_progress');
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
        const response = kept.keep(responseBody(head, 'completed', item, usage, finish));
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
      kept.keep(responseBody(head, 'completed', itemOf(head, choice!.text), usage, choice!.finish)),
  };
}

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
