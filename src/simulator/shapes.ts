/**
 * This file makes the bodies of answers, field by field as vLLM 0.32.0 writes them, nulls included.
 * Events are built as text: the parts that every token of a stream shares are made once.
 */
import type { ApiError } from './errors.ts';
import type { Finish } from './scheduler.ts';

/** Ends a stream of chat or text completions. */
export const DONE = 'data: [DONE]\n\n';

const FINGERPRINT = 'vllm-0.32.0-51a1a7ed';

export interface Usage {
  prompt: number;
  /** The number of the prompt's tokens that were computed before; left out: the answer does not say. */
  cached?: number | undefined;
  completion: number;
}

export interface AnswerHead {
  id: string;
  model: string;
  /** The time of the answer, Unix seconds. */
  created: number;
}

/** The differences between chat and text completions. */
export interface Shapes {
  idPrefix: string;
  /** Makes the answer's own id; left out: the answer has the request's. */
  newId?: () => string;
  /** The event that ends a stream. */
  done: string;
  /** Returns the event that reports an error in a stream. */
  error(error: ApiError): string;
  /** Returns the event before the first text of each choice; null: there is none. */
  opening(head: AnswerHead, index: number, usage: Usage | null, prompt?: TokenIds): string | null;
  /** Returns the event with one piece of text, ready to be filled in. */
  text(head: AnswerHead, index: number): TextEvent;
  /** Returns the event after the last text, if usage was requested. */
  usage(head: AnswerHead, usage: Usage): string;
  /** Returns the body of an answer that is not streamed. */
  whole(head: AnswerHead, choices: WholeChoice[], usage: Usage): unknown;
}

/** The ids of tokens; null: the answer has none. */
export type TokenIds = readonly number[] | null;

/**
 * @param closes the stream's last text, which carries the fingerprint when no usage event follows
 * @param ids the ids of the text's tokens
 * @param prompt the prompt's ids, with the choice's first text in forms without an opening
 */
type TextEvent = (
  text: string,
  finish: Finish | null,
  closes: boolean,
  usage: Usage | null,
  ids?: TokenIds,
  prompt?: TokenIds,
) => string;

export interface WholeChoice {
  text: string;
  finish: Finish;
  ids?: TokenIds;
  prompt?: TokenIds;
}

export const chatShapes: Shapes = {
  idPrefix: 'chatcmpl-',
  done: DONE,
  error: (error) => errorEvent(error),
  opening: (head, index, usage, prompt = null) =>
    event({
      ...chunkHead(head, 'chat.completion.chunk'),
      choices: [{ index, delta: { role: 'assistant', content: '' }, logprobs: null, finish_reason: null }],
      ...(usage && { usage: chunkUsage(usage) }),
      prompt_token_ids: prompt,
      prompt_text: null,
    }),
  text: (head, index) => {
    const before = `${openEvent(head, 'chat.completion.chunk', index)},"delta":{"content":`;
    const between = '},"logprobs":null,"finish_reason":';
    return (text, finish, closes, usage, ids = null) => {
      const end = finish ? `"${finish.reason}","stop_reason":${JSON.stringify(finish.stopReason)}` : 'null';
      const told = JSON.stringify(ids);
      return `${before}${JSON.stringify(text)}${between}${end},"token_ids":${told}}]${tail(closes, usage)}}\n\n`;
    };
  },
  usage: (head, usage) => usageEvent(head, 'chat.completion.chunk', usage),
  whole: (head, choices, usage) => ({
    ...chunkHead(head, 'chat.completion'),
    choices: choices.map(({ text, finish, ids = null }, index) => ({
      index,
      message: messageOf(text),
      logprobs: null,
      finish_reason: finish.reason,
      stop_reason: finish.stopReason,
      token_ids: ids,
      routed_experts: null,
    })),
    service_tier: null,
    system_fingerprint: FINGERPRINT,
    usage: wholeUsage(usage),
    prompt_logprobs: null,
    prompt_token_ids: choices[0]?.prompt ?? null,
    prompt_text: null,
    kv_transfer_params: null,
    ec_transfer_params: null,
    metrics: null,
  }),
};

export function messageOf(content: string | null) {
  return {
    role: 'assistant',
    content,
    refusal: null,
    annotations: null,
    audio: null,
    function_call: null,
    reasoning: null as string | null,
  };
}

export const completionShapes: Shapes = {
  idPrefix: 'cmpl-',
  done: DONE,
  error: (error) => errorEvent(error),
  opening: () => null,
  text: (head, index) => {
    const before = `${openEvent(head, 'text_completion', index)},"text":`;
    return (text, finish, closes, usage, ids = null, prompt = null) => {
      const end = finish ? `"${finish.reason}"` : 'null';
      const stop = JSON.stringify(finish?.stopReason ?? null);
      return (
        `${before}${JSON.stringify(text)},"logprobs":null,"finish_reason":${end},"stop_reason":${stop},` +
        `"prompt_token_ids":${JSON.stringify(prompt)},"token_ids":${JSON.stringify(ids)}}]${tail(closes, usage)}}\n\n`
      );
    };
  },
  usage: (head, usage) => usageEvent(head, 'text_completion', usage),
  whole: (head, choices, usage) => ({
    ...chunkHead(head, 'text_completion'),
    choices: choices.map(({ text, finish, ids = null, prompt = null }, index) => ({
      index,
      text,
      logprobs: null,
      finish_reason: finish.reason,
      stop_reason: finish.stopReason,
      token_ids: ids,
      prompt_logprobs: null,
      prompt_token_ids: prompt,
      routed_experts: null,
    })),
    service_tier: null,
    system_fingerprint: FINGERPRINT,
    usage: wholeUsage(usage),
    kv_transfer_params: null,
    ec_transfer_params: null,
    metrics: null,
  }),
};

/** Returns the answer of `/v1/models`. */
export function modelList(
  names: readonly string[],
  root: string,
  maxModelLen: number,
  adapters: ReadonlyMap<string, string>,
): unknown {
  const created = Math.floor(Date.now() / 1000);
  const models = [
    ...names.map((id) => ({ id, root, parent: null, max_model_len: maxModelLen })),
    ...[...adapters].map(([id, path]) => ({ id, root: path, parent: names[0], max_model_len: null })),
  ];
  const data = models.map(({ id, root, parent, max_model_len }, at) => ({
    id,
    object: 'model',
    created,
    owned_by: 'vllm',
    root,
    parent,
    max_model_len,
    permission: [
      {
        id: `modelperm-${created.toString(16)}${at}`,
        object: 'model_permission',
        created,
        allow_create_engine: false,
        allow_sampling: true,
        allow_logprobs: true,
        allow_search_indices: false,
        allow_view: true,
        allow_fine_tuning: false,
        organization: '*',
        group: null,
        is_blocking: false,
      },
    ],
  }));
  return { object: 'list', data };
}

/** Returns the event of an error in the middle of a stream, spaced as by Python's `json.dumps`. */
export function errorEvent({ message, type, param, status }: ApiError): string {
  const [text, kind, parameter] = [message, type, param].map((value) => JSON.stringify(value));
  return `data: {"error": {"message": ${text}, "type": ${kind}, "param": ${parameter}, "code": ${status}}}\n\n`;
}

/** Returns an event with a name. */
export function namedEvent(name: string, data: object): string {
  return `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;
}

function event(body: unknown): string {
  return `data: ${JSON.stringify(body)}\n\n`;
}

export function chunkHead({ id, model, created }: AnswerHead, object: string) {
  return { id, object, created, model };
}

function openEvent(head: AnswerHead, object: string, index: number): string {
  const start = JSON.stringify(chunkHead(head, object)).slice(0, -1);
  return `data: ${start},"choices":[{"index":${index}`;
}

export function tail(closes: boolean, usage: Usage | null): string {
  const counted = usage ? `,"usage":${JSON.stringify(chunkUsage(usage))}` : '';
  return closes ? `${counted},"system_fingerprint":"${FINGERPRINT}"` : counted;
}

function usageEvent(head: AnswerHead, object: string, usage: Usage): string {
  return event({
    ...chunkHead(head, object),
    choices: [],
    usage: {
      ...counts(usage),
      ...(usage.cached !== undefined && { prompt_tokens_details: { cached_tokens: usage.cached } }),
    },
    system_fingerprint: FINGERPRINT,
  });
}

function counts({ prompt, completion }: Usage) {
  return { prompt_tokens: prompt, total_tokens: prompt + completion, completion_tokens: completion };
}

export function chunkUsage(usage: Usage) {
  return { ...counts(usage), completion_tokens_details: null };
}

export function wholeUsage(usage: Usage) {
  const { cached } = usage;
  const details = { cached_tokens: cached, created_cache_tokens: null, multimodal_tokens: null };
  return {
    ...counts(usage),
    prompt_tokens_details: cached === undefined ? null : details,
    completion_tokens_details: null,
  };
}
