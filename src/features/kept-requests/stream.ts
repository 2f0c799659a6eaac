import { fieldsOf, jsonOrText, splitEvents } from '../../protocol/index.ts';

type Fields = Record<string, unknown>;

/**
 * Puts the events of a stream together as the answer that its API gives in one piece: chat completions and completions,
 * Anthropic's messages, responses, and Cohere's chat.
 * @param events server-sent events, of which the last may be cut off
 * @returns null: the events are of none of these
 */
export function wholeAnswer(events: string): Fields | null {
  let answer = null as Fields | null;
  for (const event of splitEvents(events)) {
    const data = [...event.matchAll(/^data: ?(.*)$/gm)].map(([, line]) => line!.trimEnd()).join('\n');
    const told = fieldsOf(jsonOrText(data));
    if (Array.isArray(told.choices)) answer = withChoices(answer, told);
    else if (typeof told.type === 'string') answer = withTyped(answer, told.type, told);
    else if (told.error !== undefined) answer = { ...answer, error: told.error };
  }
  return answer;
}

/** Adds an event of a completion or a chat completion. */
function withChoices(answer: Fields | null, told: Fields): Fields {
  const { choices, ...event } = told;
  const whole = (answer?.choices ?? []) as Fields[];
  for (const one of choices as unknown[]) {
    const { index = 0, delta, text, finish_reason } = fieldsOf(one);
    const empty: Fields = delta === undefined ? { text: '' } : { message: { role: 'assistant' } };
    const choice = placed(whole, index, empty);
    if (typeof text === 'string') choice.text = `${choice.text ?? ''}${text}`;
    if (delta !== undefined) addDelta(choice.message as Fields, fieldsOf(delta));
    if (finish_reason) choice.finish_reason = finish_reason;
  }
  return { ...answer, ...event, usage: event.usage ?? answer?.usage, choices: whole };
}

function addDelta(message: Fields, { tool_calls, ...delta }: Fields): void {
  for (const [name, value] of Object.entries(delta)) {
    if (typeof value === 'string' && name !== 'role') message[name] = `${message[name] ?? ''}${value}`;
    else if (value !== null && value !== undefined) message[name] = value;
  }
  for (const one of Array.isArray(tool_calls) ? tool_calls : []) {
    const { index = 0, id, function: called } = fieldsOf(one);
    const calls = (message.tool_calls ?? []) as { id?: unknown; function: Fields }[];
    message.tool_calls = calls;
    const call = placed(calls, index, { function: {} });
    if (id) call.id = id;
    const { name, arguments: given } = fieldsOf(called);
    if (name) call.function.name = name;
    if (typeof given === 'string') call.function.arguments = `${call.function.arguments ?? ''}${given}`;
  }
}

/** Adds an event that says its kind. */
function withTyped(answer: Fields | null, type: string, event: Fields): Fields | null {
  // The last event of a response holds all of it.
  if (type.startsWith('response.')) return event.response === undefined ? answer : fieldsOf(event.response);
  const blocks = (answer?.content ?? []) as Fields[];
  switch (type) {
    case 'message_start':
      return { content: [], ...fieldsOf(event.message) };
    case 'content_block_start':
      blocks[Number(event.index)] = { ...fieldsOf(event.content_block) };
      return { ...answer, content: blocks };
    case 'content_block_delta':
      addToBlock(placed(blocks, event.index, { type: 'text' }), fieldsOf(event.delta));
      return { ...answer, content: blocks };
    case 'message_delta': {
      const usage = { ...fieldsOf(answer?.usage), ...fieldsOf(event.usage) };
      return { ...answer, ...fieldsOf(event.delta), usage };
    }
    case 'message-start':
      return { id: event.id, message: { role: 'assistant', content: [{ type: 'text', text: '' }] } };
    case 'content-delta': {
      const { text } = fieldsOf(fieldsOf(fieldsOf(fieldsOf(event.delta).message).content));
      const [block] = ((answer?.message as Fields | undefined)?.content ?? [{}]) as Fields[];
      block!.text = `${block!.text ?? ''}${text ?? ''}`;
      return answer;
    }
    case 'message-end': {
      const { finish_reason, usage } = fieldsOf(event.delta);
      return { ...answer, finish_reason, usage };
    }
    case 'error':
      return { ...answer, error: event.error ?? event };
    default:
      return answer;
  }
}

/** The most choices, calls or blocks of an answer: a place beyond them is an engine's mistake. */
const MOST_PLACES = 1024;

/** Returns what stands at a place of a list, or puts something there. */
function placed<T>(list: T[], place: unknown, otherwise: T): T {
  const at = Math.min(Number(place) || 0, MOST_PLACES);
  list[at] ??= otherwise;
  return list[at];
}

function addToBlock(block: Fields, { type, text, thinking, partial_json }: Fields): void {
  if (type === 'text_delta') block.text = `${block.text ?? ''}${text}`;
  if (type === 'thinking_delta') block.thinking = `${block.thinking ?? ''}${thinking}`;
  // The input of a tool comes as pieces of a text.
  if (type === 'input_json_delta')
    block.input = `${typeof block.input === 'string' ? block.input : ''}${partial_json}`;
}
