import { fieldsOf } from '../../../protocol/index.ts';
import type { Fields } from '../types.ts';
import { functionName } from './chat-tools.ts';
import { Unsayable } from './unsayable.ts';

/** Translates the input of a response into the messages of a chat. */

/** A message of the assistant, to which what it thought and the calls that it made are added. */
interface AssistantMessage extends Fields {
  role: 'assistant';
  content?: unknown;
  reasoning_content?: string;
  tool_calls?: Fields[];
}

/**
 * Returns the messages of a chat.
 * @throws Unsayable
 */
export function messagesOf(instructions: unknown, input: unknown): Fields[] {
  const messages = new Messages();
  if (typeof instructions === 'string' && instructions !== '') messages.system(instructions);
  if (typeof input === 'string') messages.item({ role: 'user', content: input }, 'input');
  else if (Array.isArray(input))
    for (const [at, item] of input.entries()) messages.item(fieldsOf(item), `input[${at}]`);
  return messages.list();
}

class Messages {
  readonly #list: Fields[] = [];
  /** The assistant's newest message, while nobody else has spoken since. */
  #own: AssistantMessage | null = null;

  list(): Fields[] {
    return this.#list.filter(
      ({ role, content, tool_calls }) =>
        role !== 'assistant' || content !== undefined || tool_calls !== undefined,
    );
  }

  /** Adds instructions. Those at the beginning are one message, since many chat templates take one alone. */
  system(content: unknown): void {
    this.#own = null;
    const [first, second] = this.#list;
    const isJoined = first?.role === 'system' && second === undefined;
    if (isJoined && typeof first.content === 'string' && typeof content === 'string')
      first.content = `${first.content}\n\n${content}`;
    else this.#list.push({ role: 'system', content });
  }

  /** Adds an item of the input. @throws Unsayable */
  item(item: Fields, param: string): void {
    const type = item.type ?? (item.role === undefined ? undefined : 'message');
    if (type === 'message') return this.#message(item, param);
    if (type === 'reasoning') return this.#reasoning(item);
    if (type === 'function_call') return this.#call(item, String(item.arguments ?? '{}'));
    if (type === 'custom_tool_call') return this.#call(item, JSON.stringify({ input: item.input ?? '' }));
    if (type === 'function_call_output' || type === 'custom_tool_call_output') {
      this.#own = null;
      const content = contentOf(item.output, `${param}.output`);
      this.#list.push({ role: 'tool', tool_call_id: item.call_id, content });
      return;
    }
    const where = 'Leave the item out.';
    throw new Unsayable(`The item "${String(type).slice(0, 64)}"`, param, where);
  }

  #message({ role, content }: Fields, param: string): void {
    const said = contentOf(content, `${param}.content`);
    // Few chat templates know the role of a developer.
    if (role === 'system' || role === 'developer') return this.system(said);
    if (role !== 'assistant') {
      this.#own = null;
      this.#list.push({ role, content: said });
      return;
    }
    const own = this.#own;
    if (own === null || own.content !== undefined || own.tool_calls !== undefined) this.#speak();
    this.#own!.content = said;
  }

  #reasoning({ content, summary }: Fields): void {
    const text = textsIn(content) || textsIn(summary);
    // Nobody here can read encrypted reasoning.
    if (text === '') return;
    this.#speak().reasoning_content = text;
  }

  #call({ call_id: id, name, namespace }: Fields, argumentsText: string): void {
    const own = this.#own ?? this.#speak();
    const called = { name: functionName(name, namespace), arguments: argumentsText };
    own.tool_calls = [...(own.tool_calls ?? []), { id, type: 'function', function: called }];
  }

  #speak(): AssistantMessage {
    const message: AssistantMessage = { role: 'assistant' };
    this.#list.push(message);
    this.#own = message;
    return message;
  }
}

/** Returns the content of a message: a text if it is nothing else. @throws Unsayable */
function contentOf(content: unknown, param: string): unknown {
  if (!Array.isArray(content)) return content ?? '';
  const parts = content.map((part, at) => partOf(fieldsOf(part), `${param}[${at}]`));
  const [only] = parts;
  return parts.length === 1 && only!.type === 'text' ? only!.text : parts;
}

function partOf(part: Fields, param: string): Fields {
  const { type } = part;
  if (type === 'input_text' || type === 'output_text' || type === 'text')
    return { type: 'text', text: part.text };
  if (type === 'refusal') return { type: 'text', text: part.refusal };
  if (type === 'input_audio') return { type, input_audio: part.input_audio };
  const { image_url: url, detail } = part;
  if (type === 'input_image' && typeof url === 'string')
    return { type: 'image_url', image_url: { url, ...(typeof detail === 'string' && { detail }) } };
  if (type === 'input_file' && typeof part.file_data === 'string')
    return { type: 'file', file: { file_data: part.file_data, filename: part.filename } };
  const what =
    type === 'input_image' || type === 'input_file'
      ? `An "${type}" by id or address`
      : `The part "${String(type).slice(0, 64)}"`;
  throw new Unsayable(what, param, 'Send text, or an image by its address.');
}

function textsIn(parts: unknown): string {
  if (!Array.isArray(parts)) return '';
  return parts
    .map((part) => fieldsOf(part).text)
    .filter((text) => typeof text === 'string')
    .join('\n');
}
