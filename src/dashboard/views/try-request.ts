import { typedJson } from '../typed-json.ts';

type Part = { type: 'text'; text: string } | { type: 'image_url'; image_url: { url: string } };

/** One message of the chat. */
export interface Message {
  role: 'system' | 'user' | 'assistant';
  content: string | Part[];
}

/** The body of `POST /v1/chat/completions`. */
export interface ChatRequest {
  model: string;
  messages: Message[];
  stream: boolean;
  stream_options?: { include_usage: true };
  tools?: unknown[];
  temperature?: number;
  top_p?: number;
  max_tokens?: number;
  seed?: number;
  presence_penalty?: number;
  frequency_penalty?: number;
  stop?: string[];
}

/** The fields of numbers, in the order of the form, and their labels. */
export const NUMBERS = {
  temperature: 'Temperature',
  top_p: 'top_p',
  max_tokens: 'Max tokens',
  seed: 'Seed',
  presence_penalty: 'Presence penalty',
  frequency_penalty: 'Frequency penalty',
} as const satisfies Partial<Record<keyof ChatRequest, string>>;

/** The settings as they were typed; an empty one is not sent. */
export type Settings = Record<keyof typeof NUMBERS | 'system' | 'stop' | 'tools', string> & {
  stream: boolean;
};

/** The initial settings: enough tokens for a look, which do not keep a simulator or a small GPU busy for long. */
export const USUAL: Settings = {
  system: '',
  temperature: '',
  top_p: '',
  max_tokens: '512',
  seed: '',
  presence_penalty: '',
  frequency_penalty: '',
  stop: '',
  tools: '',
  stream: true,
};

/** Returns what is wrong with the settings, for the person who typed them, or null. */
export function faultOf(settings: Settings): string | null {
  for (const [name, label] of Object.entries(NUMBERS) as [keyof typeof NUMBERS, string][]) {
    const text = settings[name].trim();
    if (text !== '' && !Number.isFinite(Number(text))) return `${label}: "${text}" is no number.`;
  }
  return faultOfTools(settings.tools);
}

export function faultOfTools(text: string): string | null {
  if (text.trim() === '') return null;
  const typed = typedJson(text);
  if ('fault' in typed) return `Tools: ${typed.fault}`;
  return Array.isArray(typed.value) ? null : 'Tools: expected an array, such as [{"type": "function", …}].';
}

/** Returns the request. @param settings settings without a fault */
export function requestOf(model: string, said: readonly Message[], settings: Settings): ChatRequest {
  const { system, stop, tools, stream } = settings;
  const stops = stop.split('\n').filter((line) => line !== '');
  const numbers = Object.keys(NUMBERS).flatMap((name) => {
    const text = settings[name as keyof typeof NUMBERS].trim();
    return text === '' ? [] : [[name, Number(text)]];
  });
  return {
    model,
    messages: [...(system.trim() ? [{ role: 'system' as const, content: system.trim() }] : []), ...said],
    ...Object.fromEntries(numbers),
    ...(stops.length > 0 && { stop: stops }),
    ...(tools.trim() && { tools: JSON.parse(tools) as unknown[] }),
    stream,
    ...(stream && { stream_options: { include_usage: true } }),
  };
}

/**
 * Returns a person's message, with an image if there is one. @param image the image's address, or a data: address that
 * contains it
 */
export function userMessage(text: string, image: string): Message {
  if (image === '') return { role: 'user', content: text };
  return {
    role: 'user',
    content: [
      { type: 'text', text },
      { type: 'image_url', image_url: { url: image } },
    ],
  };
}

export interface ToolCall {
  name: string;
  /** The arguments in JSON, as far as they have arrived. */
  arguments: string;
}

/** Returns the known calls with the news added, since a stream brings them in parts. */
export function addToolCalls(
  known: readonly ToolCall[],
  news: readonly { index?: number; function?: { name?: string | null; arguments?: string | null } }[],
): ToolCall[] {
  const calls = [...known];
  for (const [place, { index = place, function: called }] of news.entries()) {
    const before = calls[index] ?? { name: '', arguments: '' };
    calls[index] = {
      name: before.name + (called?.name ?? ''),
      arguments: before.arguments + (called?.arguments ?? ''),
    };
  }
  return calls;
}

/** Returns the calls as text, one on each line: `get_weather({"city": "Paris"})`. */
export function callsAsText(calls: readonly ToolCall[]): string {
  return calls.map((call) => `${call.name}(${call.arguments})`).join('\n');
}
