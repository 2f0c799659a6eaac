import { fieldsOf } from '../../protocol/index.ts';
import { OutputEvents, type PartPlace } from './output-events.ts';
import type { ResponseError } from './response-object.ts';
import { CALL_KINDS, partsIn, type ResponseEvent, type Said } from './said.ts';
import { type Fields, newItemId, usageOf } from './types.ts';

/** The tool that a function of the chat stands for. */
export interface ToolOfCall {
  /** `custom`: its input is a text, which the chat has as the argument `input`. */
  type: 'function' | 'custom';
  name: string;
  /** Left out: the tool is in no namespace. */
  namespace?: string;
}

export interface EventMakerOptions {
  /** The sequence number of the first event; null: the events get none. */
  next?: number | null;
  /** Returns the tool that a function of the chat stands for; left out: a function of that name. */
  toolOf?: (name: string) => ToolOfCall;
}

type TextKind = 'output_text' | 'refusal' | 'reasoning_text';

/** The reasoning or message that is open. */
interface OpenText {
  index: number;
  /** The kind of the item's newest part; null: it has none. */
  part: TextKind | null;
}

interface OpenCall {
  index: number;
  /** The arguments of a custom tool, which are given once they are whole. */
  held: string | null;
}

/**
 * Makes the events of the Responses API from the pieces of a chat completion.
 *
 * Reasoning and messages end where another kind of piece begins; calls end with the answer, since engines may write
 * several side by side.
 */
export class EventMaker {
  readonly #response: Fields;
  readonly #toolOf: (name: string) => ToolOfCall;
  readonly #events: OutputEvents;
  readonly #calls = new Map<number, OpenCall>();
  #text: OpenText | null = null;
  #reason: string | null = null;
  #usage: Fields | null = null;

  /** @param response the Response object, as far as it does not depend on the answer */
  constructor(response: Fields, { next = null, toolOf = asFunction }: EventMakerOptions = {}) {
    this.#response = response;
    this.#toolOf = toolOf;
    this.#events = new OutputEvents(undefined, next);
  }

  /** The output that the events have given so far. */
  get said(): Said {
    return this.#events.said;
  }

  /** The reason for which the chat ended; null: it has not. */
  get finishReason(): string | null {
    return this.#reason;
  }

  /** Returns the events before the first piece. */
  begin(): ResponseEvent[] {
    const response = this.#now('in_progress');
    this.#events.say('response.created', { response });
    this.#events.say('response.in_progress', { response });
    return this.#events.take();
  }

  /** Takes the next chunk of a chat completion's stream, or a whole completion. */
  chunk(chunk: unknown): ResponseEvent[] {
    const { choices, usage } = fieldsOf(chunk);
    const choice = fieldsOf(Array.isArray(choices) ? choices[0] : undefined);
    if (typeof usage === 'object' && usage !== null) this.#usage = usageOfChat(usage as Fields);
    this.#delta(fieldsOf(choice.delta ?? choice.message), fieldsOf(choice.logprobs).content);
    const { finish_reason: reason } = choice;
    if (typeof reason === 'string' && reason !== '') this.#reason = reason;
    return this.#events.take();
  }

  /** Ends the output, and the response as the chat's reason says. */
  end(): ResponseEvent[] {
    const cut = CUT_BY[this.#reason ?? ''];
    const status = cut === undefined ? 'completed' : 'incomplete';
    // Clients look for a message even where the model said nothing.
    if (this.said.items.length === 0) this.#open('output_text');
    this.#endText(status);
    for (const { index, held } of this.#calls.values()) {
      if (held !== null) this.#events.callDelta(index, inputIn(held));
      this.#events.endItem(index, this.said.itemNow(index, status));
    }
    this.#events.say(`response.${status}`, {
      response: this.#now(status, { incomplete_details: cut === undefined ? null : { reason: cut } }),
    });
    return this.#events.take();
  }

  /** Ends the response as failed; what was not done stays incomplete. */
  fail(error: ResponseError): ResponseEvent[] {
    this.#events.say('response.failed', { response: this.#now('failed', { error }) });
    return this.#events.take();
  }

  #now(status: string, more: Fields = {}): Fields {
    return {
      ...this.#response,
      status,
      error: null,
      incomplete_details: null,
      output: this.said.outputNow(status === 'in_progress' ? 'in_progress' : 'incomplete'),
      usage: this.#usage,
      ...(status === 'completed' && { completed_at: Math.floor(Date.now() / 1000) }),
      ...more,
    };
  }

  #delta(delta: Fields, logprobs: unknown): void {
    const { content, refusal, tool_calls: calls } = delta;
    this.#piece('reasoning_text', delta.reasoning_content ?? delta.reasoning, []);
    this.#piece('output_text', content, Array.isArray(logprobs) ? logprobs : []);
    this.#piece('refusal', refusal, []);
    if (!Array.isArray(calls)) return;
    for (const [at, call] of calls.entries()) this.#call(fieldsOf(call), at);
  }

  #piece(kind: TextKind, text: unknown, logprobs: unknown[]): void {
    if (typeof text === 'string' && text !== '') this.#events.partDelta(this.#open(kind), text, logprobs);
  }

  /** Begins a part of this kind, unless the newest part is of it. */
  #open(kind: TextKind): PartPlace {
    const type = kind === 'reasoning_text' ? 'reasoning' : 'message';
    if (this.#text !== null && this.said.items[this.#text.index]!.item.type !== type)
      this.#endText('completed');
    this.#text ??= { index: this.#events.addItem(newText(type)), part: null };
    const { index, part } = this.#text;
    const at = this.said.items[index]!.parts.content.length;
    if (part === kind) return { index, list: 'content', at: at - 1 };
    if (part !== null) this.#endPart(index, at - 1);
    this.#text.part = kind;
    this.#events.addPart({ index, list: 'content', at }, newPart(kind));
    return { index, list: 'content', at };
  }

  #endPart(index: number, at: number): void {
    const part = partsIn(this.said.itemNow(index, 'completed'), 'content')[at]!;
    this.#events.endPart({ index, list: 'content', at }, part);
  }

  #endText(status: string): void {
    if (this.#text === null) return;
    const { index } = this.#text;
    this.#text = null;
    this.#events.endItem(index, this.said.itemNow(index, status));
  }

  #call({ index: number, id, function: called }: Fields, at: number): void {
    const { name, arguments: text } = fieldsOf(called);
    const key = typeof number === 'number' ? number : at;
    const call = this.#calls.get(key) ?? this.#newCall(key, id, String(name ?? ''));
    const more =
      typeof text === 'string' ? text : text === undefined || text === null ? '' : JSON.stringify(text);
    if (call.held !== null) call.held += more;
    else if (more !== '') this.#events.callDelta(call.index, more);
  }

  #newCall(key: number, id: unknown, name: string): OpenCall {
    this.#endText('completed');
    const tool = this.#toolOf(name);
    const isCustom = tool.type === 'custom';
    const type = isCustom ? 'custom_tool_call' : 'function_call';
    const itemId = newItemId(type);
    const index = this.#events.addItem({
      type,
      id: itemId,
      call_id: typeof id === 'string' && id !== '' ? id : itemId.replace(/^[a-z]+/, 'call'),
      name: tool.name,
      ...(tool.namespace !== undefined && { namespace: tool.namespace }),
      [CALL_KINDS[type]!.field]: '',
      ...(!isCustom && { status: 'in_progress' }),
    });
    const call = { index, held: isCustom ? '' : null };
    this.#calls.set(key, call);
    return call;
  }
}

/** The reasons for which a chat is cut, and what a response calls them. */
const CUT_BY: Readonly<Record<string, string>> = {
  length: 'max_output_tokens',
  content_filter: 'content_filter',
};

function asFunction(name: string): ToolOfCall {
  return { type: 'function', name };
}

function newText(type: 'message' | 'reasoning'): Fields {
  const id = newItemId(type);
  return type === 'message'
    ? { type, id, role: 'assistant', status: 'in_progress', content: [] }
    : { type, id, status: 'in_progress', summary: [], content: [] };
}

function newPart(type: TextKind): Fields {
  if (type === 'output_text') return { type, text: '', annotations: [], logprobs: [] };
  return type === 'refusal' ? { type, refusal: '' } : { type, text: '' };
}

/** Returns the input of a custom tool from the arguments of its function; what is no such object is the input. */
function inputIn(argumentsText: string): string {
  try {
    const { input } = fieldsOf(JSON.parse(argumentsText));
    return typeof input === 'string' ? input : argumentsText;
  } catch {
    return argumentsText;
  }
}

/** Returns the usage of a chat in the form of a response. */
function usageOfChat(usage: Fields): Fields {
  const count = (value: unknown) => (typeof value === 'number' ? value : 0);
  return usageOf({
    prompt_tokens: count(usage.prompt_tokens),
    completion_tokens: count(usage.completion_tokens),
    cached_tokens: count(fieldsOf(usage.prompt_tokens_details).cached_tokens),
    reasoning_tokens: count(fieldsOf(usage.completion_tokens_details).reasoning_tokens),
  });
}
