import { type ApiError, type BodyIssue, invalidBody, permissionDenied } from './errors.ts';
import type { Body } from './fields.ts';
import { type GenerationRequest, readBatch, readChat, readCompletion } from './requests.ts';
import { readResponses, responseShapes, scriptedResponse } from './responses.ts';
import type { Finish } from './scheduler.ts';
import type { Piece } from './script.ts';
import { scriptedChat } from './scripted-chat.ts';
import {
  chatShapes,
  chunkUsage,
  completionShapes,
  DONE,
  errorEvent,
  namedEvent,
  type Shapes,
  type TokenIds,
  wholeUsage,
} from './shapes.ts';

/** This file has `/v1/messages`, Anthropic's form, as vLLM 0.32.0 answers it. */

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

const messageShapes: Shapes = {
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

/**
 * Reads the body of `/inference/v1/generate`, whose prompt and answer are token ids.
 * @throws ApiError as vLLM answers it
 */
function readTokens(body: Body, servedNames: readonly string[]): GenerationRequest {
  const { token_ids, sampling_params, model, stream, stream_options, request_id } = body;
  const missing = ['token_ids', 'sampling_params'].filter((name) => body[name] === undefined);
  const issues: BodyIssue[] = missing.map((path) => ({
    type: 'missing',
    path,
    message: 'Field required',
    input: body,
  }));
  if (issues.length > 0) throw invalidBody(issues);
  const sampling = Object(sampling_params) as Body;
  const asked = { ...sampling, model, stream, stream_options, request_id, prompt: token_ids };
  const maxTokens = typeof sampling.max_tokens === 'number' ? sampling.max_tokens : null;
  return { ...readCompletion(asked, servedNames), maxTokens, returnTokenIds: true };
}

/**
 * Makes the answers' shapes, field by field as vLLM 0.32.0 has them.
 * @param tellsPrompt whether to add the prompt's ids
 */
export function tokenShapes(tellsPrompt: boolean): Shapes {
  const promptIn = (ids: readonly number[] | null | undefined) => (tellsPrompt && ids ? ids : null);
  return {
    idPrefix: 'generate-tokens-',
    done: DONE,
    error: errorEvent,
    opening: () => null,
    text: ({ id: request_id }, index) => {
      let made = 0;
      return (_, finish, __, usage, token_ids = null, prompt = null) => {
        made += token_ids?.length ?? 0;
        const prompt_token_ids = promptIn(prompt);
        const event = {
          request_id,
          usage: usage && chunkUsage(usage),
          ...(prompt_token_ids && { prompt_token_ids }),
          output_mode: 'tokens',
          choices: [choice(index, finish, token_ids, made)],
        };
        return `data: ${JSON.stringify(event)}\n\n`;
      };
    },
    usage: ({ id: request_id }, { prompt, completion }) => {
      const usage = {
        prompt_tokens: prompt,
        total_tokens: prompt + completion,
        completion_tokens: completion,
      };
      return `data: ${JSON.stringify({ request_id, usage, output_mode: 'tokens', choices: [] })}\n\n`;
    },
    whole: ({ id: request_id, model, created }, choices, usage) => ({
      request_id,
      model,
      created,
      usage: wholeUsage(usage),
      prompt_logprobs: null,
      prompt_token_id_logprobs: null,
      prompt_token_ids: promptIn(choices[0]?.prompt),
      mm_placeholders: null,
      metrics: null,
      kv_transfer_params: null,
      ec_transfer_params: null,
      output_mode: 'tokens',
      choices: choices.map(({ finish, ids = null }, index) => choice(index, finish, ids, ids?.length ?? 0)),
    }),
  };
}

/** @param made the number of the answer's tokens so far */
function choice(index: number, finish: Finish | null, token_ids: TokenIds, made: number): object {
  return {
    index,
    finish_reason: finish?.reason ?? null,
    stop_reason: finish?.stopReason ?? null,
    token_ids,
    routed_experts: null,
    sampling_mask: null,
    weight_versions: finish && [{ version: 'default', start: 0, end: made }],
    logprobs: null,
  };
}

/** An API for generation, which reads its bodies and writes its answers. */
interface Api {
  shapes: Shapes;
  read(body: Body, servedNames: readonly string[]): GenerationRequest;
  /**
   * Returns the shapes of an answer that is written down; left out: all that it says is text.
   * @param pieces what each token says
   * @param body the body of the request
   */
  scripted?(pieces: readonly Piece[], body: Body): Shapes;
}

/** Chooses the API for a body. */
export type ApiOf = (body: Body) => Api;

/** The settings that decide which routes generate, and what they take. */
interface ApiOptions {
  /** Whether those of `--enable-scale-out` are allowed. */
  enableScaleOut: boolean;
  /** Whether there is `/v1/responses`. */
  responses: boolean;
  /** The answers that are written down; null: none are. */
  script: object | null;
}

/** Returns the routes that generate. */
export function generatingApis({ enableScaleOut, responses, script }: ApiOptions): Record<string, ApiOf> {
  const parsesTools = script !== null;
  const chat: Api = {
    shapes: chatShapes,
    read: (body, names) => readChat(body, names, parsesTools),
    scripted: scriptedChat,
  };
  const response: Api = {
    shapes: responseShapes,
    read: (body, names) => readResponses(body, names, parsesTools),
    scripted: scriptedResponse,
  };
  const completion: Api = { shapes: completionShapes, read: readCompletion };
  return {
    '/v1/chat/completions': () => chat,
    '/v1/chat/completions/batch': () => ({ shapes: chatShapes, read: readBatch }),
    '/v1/completions': () => completion,
    '/v1/messages': () => ({ shapes: messageShapes, read: readMessages }),
    ...(responses && { '/v1/responses': () => response }),
    '/inference/v1/generate': (body) => {
      if (!enableScaleOut) throw scaleOutDisabled();
      return { shapes: tokenShapes(body.return_token_ids === true), read: readTokens };
    },
    '/invocations': (body) => ('messages' in body ? chat : completion),
  };
}

/** Makes the error of a route that needs `--enable-scale-out`. */
export function scaleOutDisabled(): ApiError {
  const how = 'Restart vllm serve with --enable-scale-out to enable them.';
  return permissionDenied(`Scale-out endpoints are disabled. ${how}`);
}
