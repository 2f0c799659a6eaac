import { engineMessage } from '../../protocol/api-errors.ts';
import { EventTexts, eventData } from '../../protocol/event-stream.ts';
import { request } from '../api.ts';
import { addToolCalls, type ChatRequest, type Message, type ToolCall } from './try-request.ts';

export interface ChatNews {
  /** The id of the request's ledger at the gateway. */
  jobId?: string | null;
  /** The next part of the answer. */
  text?: string;
  /** The thoughts of a reasoning model before it answers. */
  reasoning?: string;
  /** All tool calls so far, as far as they have arrived. */
  toolCalls?: ToolCall[];
  usage?: { prompt_tokens: number; completion_tokens: number };
}

/** The fields of a whole message, or of a part of one. */
interface Delta {
  content?: string | null;
  reasoning?: string | null;
  reasoning_content?: string | null;
  tool_calls?: Parameters<typeof addToolCalls>[1] | null;
}

interface Answer {
  choices?: { delta?: Delta; message?: Delta }[];
  usage?: ChatNews['usage'] | null;
  error?: { message?: string } | string;
}

/**
 * Makes the request as an application would, over the same route.
 * @throws Error with a message for the person; AbortError if the request was stopped
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
  let toolCalls: ToolCall[] = [];
  const take = ({ choices, usage, error }: Answer) => {
    if (error) throw new Error(engineMessage({ error }) ?? 'The answer broke off.');
    const said = choices?.[0]?.delta ?? choices?.[0]?.message;
    const reasoning = said?.reasoning ?? said?.reasoning_content;
    if (said?.tool_calls) toolCalls = addToolCalls(toolCalls, said.tool_calls);
    tell({
      ...(said?.content && { text: said.content }),
      ...(reasoning && { reasoning }),
      ...(said?.tool_calls && { toolCalls }),
      ...(usage && { usage }),
    });
  };
  if (!body.stream) return take((await response.json()) as Answer);
  for await (const data of dataIn(response.body!)) {
    if (data === '[DONE]') return;
    take(JSON.parse(data) as Answer);
  }
}

/** Yields the data of server-sent events, one by one; comments, such as the place in the queue, are left out. */
async function* dataIn(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const reader = body.getReader();
  const events = new EventTexts();
  for (;;) {
    const { done, value } = await reader.read();
    for (const event of done ? events.end() : events.push(value)) {
      const data = eventData(event);
      if (data !== '') yield data;
    }
    if (done) return;
  }
}

interface Props {
  messages: readonly Message[];
  model: string;
  /** The reasoning of the last answer. */
  reasoning: string;
  isRunning: boolean;
}

/** Shows the chat so far. */
export function ChatList({ messages, model, reasoning, isRunning }: Props) {
  return (
    <ol class="chat" aria-label="Chat" aria-live="polite" aria-busy={isRunning}>
      {messages.map(({ role, content }, index) => (
        <li key={index} class={role}>
          <b>{role === 'user' ? 'You' : model}</b>
          {role === 'assistant' && index === messages.length - 1 && reasoning && (
            <details>
              <summary>Reasoning</summary>
              <p class="said dim">{reasoning}</p>
            </details>
          )}
          <Said content={content} isRunning={isRunning} />
        </li>
      ))}
    </ol>
  );
}

function Said({ content, isRunning }: { content: Message['content']; isRunning: boolean }) {
  if (typeof content === 'string') return <p class="said">{content || (isRunning ? '…' : '')}</p>;
  return (
    <div class="said">
      {content.map((part) =>
        part.type === 'text' ? (
          <p key="text">{part.text}</p>
        ) : part.image_url.url.startsWith('data:') ? (
          <img key="image" src={part.image_url.url} alt="Sent with this message" />
        ) : (
          // An image from another host is not loaded, since the page requests nothing from other hosts.
          <p key="image" class="id">
            {part.image_url.url}
          </p>
        ),
      )}
    </div>
  );
}
