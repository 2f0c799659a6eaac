import { promptIds, tokenSource } from '../../src/simulator/text.ts';

/**
 * A chat, or an answer of `/inference/v1/generate`, as vLLM streams it that tells token ids, and goes on from those that
 * it is given (docs/moving.md).
 */

/** Of each prompt, however long its text. */
export const PROMPT_TOKENS = 5;
/** Ids below are of prompts. */
const GENERATED_FROM = 200_000;
const MOST_REASONING = 12;
/** Some tokens have a long text, so that relays and callers fall behind. */
const LONG_TEXT = '.'.repeat(3000);

/** A body of either route. */
export interface GenerationBody {
  messages?: unknown[];
  /** The prompt of the route that answers in tokens. */
  token_ids?: number[];
  sampling_params?: { max_tokens?: number };
  max_tokens?: number;
  /** The model thinks first; a chat only. */
  include_reasoning?: boolean;
  stop?: string;
  include_stop_str_in_output?: boolean;
  stream_options?: { include_usage?: boolean };
  stream?: boolean;
  return_token_ids?: boolean;
  /** It goes on from these ids, or names blocks of another engine that hold them. */
  kv_transfer_params?: {
    prompt_token_ids: number[];
    do_remote_prefill?: boolean;
    remote_request_id?: string;
  };
}

export interface ContinuableAnswer {
  /** Of the caller's own prompt. */
  promptTokens: number;
  /** As of `Saying`. */
  spends: number;
  /** Of the whole answer, those before this part included. */
  tokens: number;
  /** Of this part. */
  text: string;
  reasoning: string;
  finishReason: string;
  /** What whoever asked the caller's question gets if nothing cuts it short. */
  wanted: { plain: Buffer; counted: Buffer };
  /** What the engine says, which ends early where it gives up. */
  said: Buffer;
}

interface Ending {
  /** Otherwise its body ends in order before its last event. */
  isFinished: boolean;
  /** The share of its tokens that an engine which gives up has made; null: it does not. */
  gaveUpAt: number | null;
}

/** The next token follows from all before it, so an answer reads the same wherever it was cut. */
export function continuableAnswer(
  mark: string,
  createdAt: number,
  body: GenerationBody,
  { isFinished, gaveUpAt }: Ending,
): ContinuableAnswer {
  const { messages, token_ids, stream_options, return_token_ids, kv_transfer_params } = body;
  const isOfTokens = token_ids !== undefined;
  const { max_tokens = 12 } = body.sampling_params ?? body;
  const asked = kv_transfer_params?.prompt_token_ids ?? token_ids;
  const ids = asked ?? promptIds(JSON.stringify(messages), PROMPT_TOKENS);
  const source = tokenSource(ids);
  const most = Math.max(1, Math.min(max_tokens, source.naturalLength));
  const { tokens, stopAt } = generated(source, most, body.stop ?? null);
  const made = tokens.length;
  const reason = made < max_tokens || stopAt !== null ? 'stop' : 'length';
  const head = isOfTokens
    ? { request_id: mark, output_mode: 'tokens' }
    : { id: mark, object: 'chat.completion.chunk', created: createdAt, model: 'tiny' };
  const promptTokens = ids.filter((id) => id < GENERATED_FROM).length;
  const thinks = body.include_reasoning === true ? reasoningTokens(ids, promptTokens) : 0;
  const choice = (delta: object, finish: string | null, told?: number[] | null) => ({
    choices: [
      {
        ...{ index: 0, ...(!isOfTokens && { delta }), finish_reason: finish },
        ...(finish !== null && { stop_reason: stopAt === null ? null : body.stop }),
        ...(told !== undefined && { token_ids: told }),
      },
    ],
  });
  const events = (isTold: boolean, showsStop: boolean, most: number) => {
    const end = stopAt === null ? Number.POSITIVE_INFINITY : stopAt + (showsStop ? body.stop!.length : 0);
    const opening = {
      ...choice({ role: 'assistant', content: '' }, null),
      prompt_token_ids: isTold ? ids : null,
    };
    return [
      ...(isOfTokens ? [] : [opening]),
      ...tokens.slice(0, most).map(({ id, text, from }, at) => {
        const content = text.slice(0, Math.max(0, end - from));
        const delta = at < thinks ? { reasoning: content } : { content };
        return choice(delta, at === made - 1 ? reason : null, isTold || isOfTokens ? [id] : null);
      }),
    ];
  };
  const whole = ids.length - promptTokens + made;
  const usageOf = (prompt: number, completion: number) => ({
    choices: [],
    usage: { prompt_tokens: prompt, total_tokens: prompt + completion, completion_tokens: completion },
  });
  const write = (list: object[], end = 'data: [DONE]\n\n') =>
    Buffer.from(list.map((event) => `data: ${JSON.stringify({ ...head, ...event })}\n\n`).join('') + end);
  const continues = isOfTokens ? whole > made : kv_transfer_params && !kv_transfer_params.do_remote_prefill;
  const wanted = events(false, false, made);
  const isTold = return_token_ids === true;
  const said = (most: number) => events(isTold, body.include_stop_str_in_output === true, most);
  const counted = stream_options?.include_usage === true ? [usageOf(ids.length, made)] : [];
  const gaveUp = () => [...said(Math.floor(gaveUpAt! * made)), choice({ content: '' }, 'abort', [])];
  const unfinished = () => write(said(made - 1), '');
  return {
    promptTokens,
    spends: made + (continues ? 0 : promptTokens),
    tokens: whole,
    text: textsOf(tokens.slice(thinks)).slice(0, stopAt ?? undefined),
    reasoning: textsOf(tokens.slice(0, thinks)),
    finishReason: reason,
    wanted: { plain: write(wanted), counted: write([...wanted, usageOf(promptTokens, whole)]) },
    said:
      gaveUpAt !== null ? write(gaveUp()) : isFinished ? write([...said(made), ...counted]) : unfinished(),
  };
}

/**
 * How many of the tokens that it says now are reasoning. Whatever goes on within the reasoning of another engine has a
 * parser that begins anew: it takes all for content.
 */
function reasoningTokens(ids: readonly number[], promptTokens: number): number {
  return ids.length > promptTokens ? 0 : 1 + (ids[0]! % MOST_REASONING);
}

interface Token {
  id: number;
  text: string;
  /** Where its text begins. */
  from: number;
}

/** Tokens until the one that completes the stop string, and where that begins; null: there is none. */
function generated(
  source: ReturnType<typeof tokenSource>,
  most: number,
  stop: string | null,
): { tokens: Token[]; stopAt: number | null } {
  const tokens: Token[] = [];
  let all = '';
  while (tokens.length < most) {
    const { id, text } = source.next();
    tokens.push({ id, text: textOf(id, text), from: all.length });
    all += textOf(id, text);
    const at = stop === null ? -1 : all.indexOf(stop);
    if (at >= 0) return { tokens, stopAt: at };
  }
  return { tokens, stopAt: null };
}

function textsOf(tokens: readonly Token[]): string {
  return tokens.map(({ text }) => text).join('');
}

function textOf(id: number, text: string): string {
  return id % 7 === 0 ? text + LONG_TEXT : text;
}
