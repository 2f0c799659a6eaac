import type { Message } from './request.ts';

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
          <img key="image" src={part.image_url.url} alt="Sent with it" />
        ) : (
          // An image of another host is not loaded: the page requests nothing from any other host.
          <p key="image" class="id">
            {part.image_url.url}
          </p>
        ),
      )}
    </div>
  );
}
