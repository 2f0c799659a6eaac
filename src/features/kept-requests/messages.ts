import { fieldsOf, jsonOrText } from '../../protocol/index.ts';

/**
 * Requests and answers in the words of OpenTelemetry's conventions for generative AI: gen-ai-input-messages.json,
 * gen-ai-output-messages.json and gen-ai-system-instructions.json of open-telemetry/semantic-conventions-genai.
 */

type Fields = Record<string, unknown>;

/** A part of a message: `text`, `reasoning`, `tool_call`, `tool_call_response`, `uri`, `blob`, or any other as it came. */
export type Part = { type: string } & Fields;

export interface Message {
  role: string;
  parts: Part[];
  /** Only an output message has it. */
  finish_reason?: string;
}

/** Returns the messages that a request's body holds in one of the known forms; null: it is in none. */
export function inputMessages({ messages, prompt, input }: Fields): Message[] | null {
  if (Array.isArray(messages) && messages.every((one) => typeof fieldsOf(one).role === 'string'))
    return messages.map(messageOf);
  const given = input ?? prompt;
  const texts = typeof given === 'string' ? [given] : given;
  if (!Array.isArray(texts) || texts.length === 0) return null;
  if (texts.every((one) => typeof one === 'string'))
    return texts.map((content) => ({ role: 'user', parts: [text(content)] }));
  return texts.every((one) => typeof fieldsOf(one).type === 'string' || fieldsOf(one).role !== undefined)
    ? texts.map(itemOf)
    : null;
}

/** Returns the instructions that stand beside the messages, as parts; null: there are none. */
export function systemInstructions({ system, instructions }: Fields): Part[] | null {
  const parts = partsOf(system ?? instructions);
  return parts.length === 0 ? null : parts;
}

/** Returns the messages of a whole answer, one for each choice; null: the answer is in no known form. */
export function outputMessages(answer: unknown): Message[] | null {
  const { choices, output, content, message, stop_reason, finish_reason, status, role } = fieldsOf(answer);
  if (Array.isArray(choices)) return choices.map(choiceOf);
  if (Array.isArray(output) && output.every((item) => typeof fieldsOf(item).type === 'string')) {
    const finish = finishOf(status === 'completed' ? 'stop' : status === 'incomplete' ? 'length' : status);
    return [
      { role: 'assistant', parts: output.flatMap((item) => itemOf(item).parts), finish_reason: finish },
    ];
  }
  if (Array.isArray(content))
    return [
      { role: String(role ?? 'assistant'), parts: partsOf(content), finish_reason: finishOf(stop_reason) },
    ];
  if (typeof fieldsOf(message).role === 'string')
    return [{ ...messageOf(message), finish_reason: finishOf(finish_reason) }];
  return null;
}

function choiceOf(choice: unknown): Message {
  const { message, text: generated, finish_reason } = fieldsOf(choice);
  const said: Message =
    message === undefined
      ? { role: 'assistant', parts: typeof generated === 'string' ? [text(generated)] : [] }
      : messageOf(message);
  return { ...said, finish_reason: finishOf(finish_reason) };
}

/** The engines' words for the end of an answer, in those of the conventions; others stay as they are. */
const FINISHES: Record<string, string> = {
  tool_calls: 'tool_call',
  tool_use: 'tool_call',
  TOOL_CALL: 'tool_call',
  end_turn: 'stop',
  stop_sequence: 'stop',
  COMPLETE: 'stop',
  max_tokens: 'length',
  MAX_TOKENS: 'length',
  failed: 'error',
};

function finishOf(reason: unknown): string {
  return typeof reason === 'string' ? (FINISHES[reason] ?? reason) : 'error';
}

/** Returns a message of a chat, in OpenAI's form, Anthropic's or Cohere's. */
function messageOf(message: unknown): Message {
  const { role, content, tool_calls, tool_call_id, reasoning, reasoning_content, refusal } =
    fieldsOf(message);
  const thought = reasoning_content ?? reasoning;
  const parts: Part[] =
    role === 'tool'
      ? [{ type: 'tool_call_response', id: tool_call_id ?? null, response: content ?? null }]
      : [
          ...(typeof thought === 'string' && thought !== '' ? [{ type: 'reasoning', content: thought }] : []),
          ...partsOf(content),
          ...(typeof refusal === 'string' ? [{ type: 'refusal', content: refusal }] : []),
        ];
  for (const call of Array.isArray(tool_calls) ? tool_calls : []) {
    const { id, function: called } = fieldsOf(call);
    const { name, arguments: given } = fieldsOf(called);
    parts.push(toolCall(id, name, given));
  }
  return { role: String(role ?? 'user'), parts };
}

/** Returns an item of a response's input or output as a message. */
function itemOf(item: unknown): Message {
  const { type, call_id, name, arguments: given, output, content, summary, role } = fieldsOf(item);
  if (type === 'function_call') return { role: 'assistant', parts: [toolCall(call_id, name, given)] };
  if (type === 'function_call_output')
    return { role: 'tool', parts: [{ type: 'tool_call_response', id: call_id ?? null, response: output }] };
  if (type === 'reasoning') {
    const thoughts = [content, summary].flatMap((list) => (Array.isArray(list) ? list : []));
    const parts = thoughts.flatMap((one) => {
      const { text: thought } = fieldsOf(one);
      return typeof thought === 'string' ? [{ type: 'reasoning', content: thought }] : [];
    });
    return { role: 'assistant', parts };
  }
  if (content !== undefined) return { role: String(role ?? 'assistant'), parts: partsOf(content) };
  return { role: String(role ?? 'assistant'), parts: [partOf(item)] };
}

function partsOf(content: unknown): Part[] {
  if (typeof content === 'string') return [text(content)];
  return Array.isArray(content) ? content.map(partOf) : [];
}

function partOf(part: unknown): Part {
  if (typeof part === 'string') return text(part);
  const fields = fieldsOf(part);
  const { type, text: said, image_url, input_audio, source } = fields;
  switch (type) {
    case 'text':
    case 'input_text':
    case 'output_text':
      return text(String(said ?? ''));
    case 'thinking':
      return { type: 'reasoning', content: String(fields.thinking ?? '') };
    case 'tool_use':
      return toolCall(fields.id, fields.name, fields.input);
    case 'tool_result':
      return { type: 'tool_call_response', id: fields.tool_use_id ?? null, response: fields.content ?? null };
    case 'image_url':
    case 'input_image':
      return media('image', typeof image_url === 'string' ? image_url : fieldsOf(image_url).url);
    case 'input_audio': {
      const { data, format } = fieldsOf(input_audio);
      return { type: 'blob', modality: 'audio', mime_type: `audio/${format}`, content: String(data ?? '') };
    }
    case 'image': {
      const { type: kind, url, media_type, data } = fieldsOf(source);
      if (kind === 'url') return media('image', url);
      return { type: 'blob', modality: 'image', mime_type: media_type ?? null, content: String(data ?? '') };
    }
    default:
      return { ...fields, type: typeof type === 'string' ? type : 'unknown' };
  }
}

/** Returns a part for a medium at an address, or within a `data:` address. */
function media(modality: string, address: unknown): Part {
  const url = String(address ?? '');
  const [, mime_type, content] = /^data:([^;,]*);base64,(.*)$/s.exec(url) ?? [];
  return content === undefined
    ? { type: 'uri', modality, uri: url }
    : { type: 'blob', modality, mime_type, content };
}

function text(content: string): Part {
  return { type: 'text', content };
}

function toolCall(id: unknown, name: unknown, given: unknown): Part {
  const called = typeof given === 'string' ? jsonOrText(given) : (given ?? null);
  return { type: 'tool_call', id: id ?? null, name: String(name ?? ''), arguments: called };
}
