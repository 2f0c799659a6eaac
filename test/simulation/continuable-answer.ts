import { promptIds, seedFrom, tokenSource } from '../../src/simulator/text.ts';

/** A chat as vLLM streams it that tells token ids, and goes on from those that it is given (docs/moving.md). */

/** Of each prompt, however long its text. */
export const PROMPT_TOKENS = 5;
/** Ids below are of prompts. */
const GENERATED_FROM = 200_000;
/** Some tokens have a long text, so that relays and callers fall behind. */
const LONG_TEXT = '.'.repeat(3000);

export interface ChatBody {
  messages?: unknown[];
  max_tokens?: number;
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
  finishReason: string;
  /** What whoever asked the caller's question gets if nothing cuts it short. */
  wanted: { plain: Buffer; counted: Buffer };
  /** What the engine says, which ends early where it gives up. */
  said: Buffer;
}

interface Ending {
  hasEndMark: boolean;
  /** The share of its tokens that an engine which gives up has made; null: it does not. */
  gaveUpAt: number | null;
}

/** The next token follows from all before it, so an answer reads the same wherever it was cut. */
export function continuableAnswer(
  mark: string,
  createdAt: number,
  body: ChatBody,
  { hasEndMark, gaveUpAt }: Ending,
): ContinuableAnswer {
  const { messages, max_tokens = 12, stream_options, return_token_ids, kv_transfer_params } = body;
  const ids =
    kv_transfer_params?.prompt_token_ids ?? promptIds(seedFrom(JSON.stringify(messages)), PROMPT_TOKENS);
  const source = tokenSource(ids);
  const most = Math.max(1, Math.min(max_tokens, source.naturalLength));
  const { tokens, stopAt } = generated(source, most, body.stop ?? null);
  const made = tokens.length;
  const reason = made < max_tokens || stopAt !== null ? 'stop' : 'length';
  const head = { id: mark, object: 'chat.completion.chunk', created: createdAt, model: 'tiny' };
  const choice = (delta: object, finish: string | null, told?: number[] | null) => ({
    choices: [
      {
        ...{ index: 0, delta, finish_reason: finish },
        ...(finish !== null && { stop_reason: stopAt === null ? null : body.stop }),
        ...(told !== undefined && { token_ids: told }),
      },
    ],
  });
  const events = (isTold: boolean, showsStop: boolean, most: number) => {
    const end = stopAt === null ? Number.POSITIVE_INFINITY : stopAt + (showsStop ? body.stop!.length : 0);
    return [
      { ...choice({ role: 'assistant', content: '' }, null), prompt_token_ids: isTold ? ids : null },
      ...tokens.slice(0, most).map(({ id, text, from }, at) => {
        const content = text.slice(0, Math.max(0, end - from));
        return choice({ content }, at === made - 1 ? reason : null, isTold ? [id] : null);
      }),
    ];
  };
  const promptTokens = ids.filter((id) => id < GENERATED_FROM).length;
  const whole = ids.length - promptTokens + made;
  const usageOf = (prompt: number, completion: number) => ({
    choices: [],
    usage: { prompt_tokens: prompt, total_tokens: prompt + completion, completion_tokens: completion },
  });
  const write = (list: object[], end = 'data: [DONE]\n\n') =>
    Buffer.from(list.map((event) => `data: ${JSON.stringify({ ...head, ...event })}\n\n`).join('') + end);
  const wanted = events(false, false, made);
  const isTold = return_token_ids === true;
  const said = (most: number) => events(isTold, body.include_stop_str_in_output === true, most);
  const counted = stream_options?.include_usage === true ? [usageOf(ids.length, made)] : [];
  const gaveUp = () => [...said(Math.floor(gaveUpAt! * made)), choice({ content: '' }, 'abort', [])];
  return {
    promptTokens,
    spends: made + (kv_transfer_params && !kv_transfer_params.do_remote_prefill ? 0 : promptTokens),
    tokens: whole,
    text: tokens
      .map(({ text }) => text)
      .join('')
      .slice(0, stopAt ?? undefined),
    finishReason: reason,
    wanted: { plain: write(wanted), counted: write([...wanted, usageOf(promptTokens, whole)]) },
    said:
      gaveUpAt === null ? write([...said(made), ...counted], hasEndMark ? undefined : '') : write(gaveUp()),
  };
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

function textOf(id: number, text: string): string {
  return id % 7 === 0 ? text + LONG_TEXT : text;
}
