/** This file has `/v1/responses` as vLLM 0.32.0 answers it, which stores nothing unless it is told to. */
import { randomBytes } from 'node:crypto';
import { type Body, FieldParser } from './fields.ts';
import { type GenerationRequest, readChat } from './requests.ts';
import type { Finish } from './scheduler.ts';
import type { Piece } from './script.ts';
import { type AnswerHead, namedEvent, type Shapes, type Usage } from './shapes.ts';

/** Reads a body of `/v1/responses`. @throws ApiError */
export function readResponses(
  body: Body,
  servedNames: readonly string[],
  parsesTools = false,
): GenerationRequest {
  const { input, instructions, max_output_tokens, previous_response_id: _before, ...rest } = body;
  if (input === undefined) {
    const fields = new FieldParser(body);
    fields.missing('input');
    fields.check();
  }
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
  return { ...readChat(chat, servedNames, parsesTools), continuousUsage: true };
}

function asMessage(item: Body): Body {
  const { type } = Object(item) as Body;
  if (type === 'reasoning') return { role: 'assistant', content: textsIn(item.content ?? item.summary) };
  if (type === 'function_call' || type === 'custom_tool_call')
    return { role: 'assistant', content: `${item.name} ${item.arguments ?? item.input}` };
  if (type === 'function_call_output' || type === 'custom_tool_call_output')
    return { role: 'tool', content: textsIn(item.output) };
  if (!Array.isArray(item?.content)) return item;
  const content = item.content.map((part: Body) =>
    TEXT_PARTS.has(String(part.type)) ? { type: 'text', text: part.text } : part,
  );
  return { role: item.role, content };
}

const TEXT_PARTS: ReadonlySet<string> = new Set(['input_text', 'output_text']);

function textsIn(content: unknown): string {
  if (!Array.isArray(content)) return String(content ?? '');
  return content.map((part: Body) => String(part?.text ?? '')).join('\n');
}

export const responseShapes: Shapes = shapesOf(null, []);

/** Returns the shapes of a response whose answer is written down. */
export function scriptedResponse(pieces: readonly Piece[], { tools }: Body): Shapes {
  return shapesOf(pieces, Array.isArray(tools) ? tools : []);
}

/** @param pieces what each token says; null: each is one of a text @param tools those of the request */
function shapesOf(pieces: readonly Piece[] | null, tools: readonly Body[]): Shapes {
  return {
    idPrefix: 'resp_',
    // The engine gives a response an id of its own, whatever the id of the request.
    newId: () => randomBytes(16).toString('hex'),
    done: '',
    error: (error) => namedEvent('error', { type: 'error', ...(error.body as object) }),
    opening: (head) => {
      const response = responseBody(head, 'in_progress', [], null, null);
      return (
        namedEvent('response.created', { response, sequence_number: 0, type: 'response.created' }) +
        namedEvent('response.in_progress', { response, sequence_number: 1, type: 'response.in_progress' })
      );
    },
    text: (head) => {
      const output = new Output(head, tools);
      let made = 0;
      return (text, finish, _closes, usage) => {
        const piece = pieces?.[made++] ?? { kind: 'text', text };
        const events = output.push(piece);
        if (!finish) return events;
        const rest = output.close();
        const response = responseBody(head, 'completed', output.items, usage, finish);
        return events + rest + output.event('response.completed', { response });
      };
    },
    usage: () => '',
    whole: (head, [choice], usage) => {
      const output = new Output(head, tools);
      const { text, finish } = choice!;
      const said = pieces?.slice(0, usage.completion) ?? [{ kind: 'text', text } as const];
      for (const piece of said) output.push(piece);
      output.close();
      return responseBody(head, 'completed', output.items, usage, finish);
    },
  };
}

/** The output of a response, one item after the other. */
class Output {
  readonly items: Body[] = [];
  readonly #head: AnswerHead;
  readonly #tools: readonly Body[];
  #number = 2;
  #open: { piece: Piece; item: Body; text: string } | null = null;

  constructor(head: AnswerHead, tools: readonly Body[]) {
    this.#head = head;
    this.#tools = tools;
  }

  event(type: string, fields: object): string {
    return namedEvent(type, { ...fields, sequence_number: this.#number++, type });
  }

  push(piece: Piece): string {
    const before = this.#open?.piece;
    const isSame = before?.kind === piece.kind && indexOf(before) === indexOf(piece);
    const begun = isSame ? '' : this.close() + this.#begin(piece);
    const open = this.#open!;
    open.text += piece.text;
    const { type } = open.item;
    const delta = { ...this.#place, delta: piece.text };
    if (type === 'message') {
      return begun + this.event('response.output_text.delta', { content_index: 0, ...delta, logprobs: [] });
    }
    if (type === 'reasoning')
      return begun + this.event('response.reasoning_text.delta', { content_index: 0, ...delta });
    // The input of a custom tool is known once its JSON is whole.
    if (type === 'custom_tool_call') return begun;
    return begun + this.event('response.function_call_arguments.delta', delta);
  }

  /** Ends the item that is open. */
  close(): string {
    if (this.#open === null) return '';
    const { item, text } = this.#open;
    const events = this.#ends(item, text);
    const whole = { ...item, ...this.#whole(item, text) };
    const done = this.event('response.output_item.done', { item: whole, output_index: this.items.length });
    this.items.push(whole);
    this.#open = null;
    return events + done;
  }

  get #place(): { item_id: unknown; output_index: number } {
    return { item_id: this.#open!.item.id, output_index: this.items.length };
  }

  #begin(piece: Piece): string {
    const item = this.#newItem(piece);
    this.#open = { piece, item, text: '' };
    const added = this.event('response.output_item.added', { item, output_index: this.items.length });
    const part = PARTS[String(item.type)];
    if (part === undefined) return added;
    return added + this.event('response.content_part.added', { content_index: 0, ...this.#place, part });
  }

  #newItem(piece: Piece): Body {
    const number = this.items.length === 0 ? '' : this.items.length;
    const id = (prefix: string) => `${prefix}_${this.#head.id.slice('resp_'.length)}${number}`;
    const status = 'in_progress';
    if (piece.kind === 'text')
      return { id: id('msg'), content: [], role: 'assistant', status, type: 'message' };
    if (piece.kind === 'reasoning')
      return { id: id('rs'), summary: [], type: 'reasoning', content: null, encrypted_content: null, status };
    const call_id = piece.call.id;
    const { name, namespace, isCustom } = this.#toolOf(piece.call.name);
    if (isCustom) return { call_id, input: '', name, type: 'custom_tool_call', id: id('ctc') };
    return { arguments: '', call_id, name, type: 'function_call', id: id('fc'), namespace, status };
  }

  #toolOf(name: string): { name: string; namespace: string | null; isCustom: boolean } {
    for (const { type, name: own, tools } of this.#tools) {
      const within = type === 'namespace' && Array.isArray(tools) ? tools : [];
      const found = within.find((tool: Body) => `${own}__${tool.name}` === name);
      if (found) return { name: found.name, namespace: String(own), isCustom: found.type === 'custom' };
    }
    const isCustom = this.#tools.some((tool) => tool.type === 'custom' && tool.name === name);
    return { name, namespace: null, isCustom };
  }

  /** The events of the end of an item's text. */
  #ends({ type, name }: Body, text: string): string {
    const place = this.#place;
    if (type === 'function_call')
      return this.event('response.function_call_arguments.done', { arguments: text, ...place, name });
    if (type === 'custom_tool_call') {
      const input = inputIn(text);
      const delta = this.event('response.custom_tool_call_input.delta', { delta: input, ...place });
      return delta + this.event('response.custom_tool_call_input.done', { input, ...place });
    }
    const at = { content_index: 0, ...place };
    const [part] = this.#whole({ type }, text).content as Body[];
    const done =
      type === 'message'
        ? this.event('response.output_text.done', { ...at, logprobs: [], text })
        : this.event('response.reasoning_text.done', { ...at, text });
    return done + this.event('response.content_part.done', { ...at, part });
  }

  /** The fields of an item at its end. */
  #whole({ type }: Body, text: string): Body {
    const status = 'completed';
    if (type === 'message')
      return { content: [{ annotations: [], text, type: 'output_text', logprobs: null }], status };
    if (type === 'reasoning') return { content: [{ text, type: 'reasoning_text' }], status };
    return type === 'function_call' ? { arguments: text, status } : { input: inputIn(text) };
  }
}

/** The parts with which items begin. */
const PARTS: Readonly<Record<string, object>> = {
  message: { annotations: [], text: '', type: 'output_text', logprobs: [] },
  reasoning: { text: '', type: 'reasoning_text' },
};

function indexOf(piece: Piece): number | null {
  return piece.kind === 'call' ? piece.index : null;
}

function inputIn(argumentsText: string): string {
  try {
    return String(JSON.parse(argumentsText).input);
  } catch {
    return argumentsText;
  }
}

function responseBody(
  { id, model, created }: AnswerHead,
  status: string,
  output: readonly object[],
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
    output,
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
