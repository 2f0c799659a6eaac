import { request } from './api.ts';

/** One thing that was said. */
export interface Message {
  role: 'user' | 'assistant';
  content: string;
}

/** Body of `POST /v1/chat/completions`. */
export interface ChatRequest {
  model: string;
  messages: Message[];
  max_tokens: number;
  stream: true;
  stream_options: { include_usage: true };
}

export interface ChatNews {
  /** Id under which the gateway has the request's ledger. */
  jobId?: string | null;
  /** More of the answer. */
  text?: string;
  /** What a reasoning model thinks before it answers. */
  reasoning?: string;
  usage?: { prompt_tokens: number; completion_tokens: number };
}

interface Chunk {
  choices?: {
    delta?: { content?: string | null; reasoning?: string | null; reasoning_content?: string | null };
  }[];
  usage?: ChatNews['usage'] | null;
  error?: { message?: string };
}

/**
 * Asks as an application would, over the same road.
 * @throws Error with what to tell; AbortError where it was stopped
 */
export async function chat(
  body: ChatRequest,
  signal: AbortSignal,
  tell: (news: ChatNews) => void,
): Promise<void> {
  const response = await request('v1/chat/completions', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
    signal,
  });
  tell({ jobId: response.headers.get('x-job-id') });
  if (!response.ok) {
    const told = (await response.json().catch(() => null)) as Chunk | null;
    throw new Error(told?.error?.message ?? `The gateway answered ${response.status}.`);
  }
  for await (const data of events(response.body!)) {
    if (data === '[DONE]') return;
    const { choices, usage, error } = JSON.parse(data) as Chunk;
    if (error) throw new Error(error.message ?? 'The answer broke off.');
    const delta = choices?.[0]?.delta;
    const reasoning = delta?.reasoning ?? delta?.reasoning_content;
    tell({
      ...(delta?.content && { text: delta.content }),
      ...(reasoning && { reasoning }),
      ...(usage && { usage }),
    });
  }
}

/** The data of server-sent events, one by one; comments, such as the place in the queue, are left out. */
export async function* events(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  const reader = body.getReader();
  let rest = '';
  for (;;) {
    const { done, value } = await reader.read();
    rest += done ? decoder.decode() : decoder.decode(value, { stream: true });
    const blocks = rest.split(/\r?\n\r?\n/);
    rest = done ? '' : blocks.pop()!;
    for (const block of blocks) {
      const data = block
        .split(/\r?\n/)
        .flatMap((line) => (line.startsWith('data:') ? [line.slice(5).trimStart()] : []));
      if (data.length > 0) yield data.join('\n');
    }
    if (done) return;
  }
}
