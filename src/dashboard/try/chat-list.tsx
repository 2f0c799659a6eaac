import type { Message } from './request.ts';

interface Props {
  messages: readonly Message[];
  model: string;
  /** Of the last answer. */
  reasoning: string;
  isRunning: boolean;
}

/** What was said so far. */
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
          <img key="image" src={part.image_url.url} alt="Sent with it" />
        ) : (
          // Images of other hosts are not loaded: the page asks no other host for anything.
          <p key="image" class="id">
            {part.image_url.url}
          </p>
        ),
      )}
    </div>
  );
}
