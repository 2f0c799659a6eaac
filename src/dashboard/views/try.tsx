import { useEffect, useRef, useState } from 'preact/hooks';
import { ask } from '../api.ts';
import { type ChatNews, type ChatRequest, chat, type Message } from '../chat.ts';
import { Problem } from '../controls/action.tsx';
import { Command } from '../controls/copy-button.tsx';
import { curlOf } from '../curl.ts';
import * as format from '../format.ts';
import { fleet } from '../live.ts';
import { href } from '../router.ts';
import { maySubmit, session } from '../session.ts';

/** Enough for a look, and a simulator or a small GPU is not kept long. */
const MAX_TOKENS = 512;

interface Measured {
  jobId: string | null;
  /** ms after sending. */
  firstTokenMs: number | null;
  totalMs: number | null;
  usage: ChatNews['usage'] | null;
}

const NOTHING: Measured = { jobId: null, firstTokenMs: null, totalMs: null, usage: null };

/** A chat over the same road as any application's, and the command that does the same. */
export function TryView() {
  const models = useModels();
  const [model, setModel] = useState('');
  const [messages, setMessages] = useState<Message[]>([]);
  const [text, setText] = useState('');
  const [sent, setSent] = useState<ChatRequest | null>(null);
  const [reasoning, setReasoning] = useState('');
  const [measured, setMeasured] = useState<Measured>(NOTHING);
  const [problem, setProblem] = useState<string | null>(null);
  const [running, setRunning] = useState<AbortController | null>(null);
  const chosen = model || models[0] || '';
  useEffect(() => () => running?.abort(), [running]);

  const send = async (event: Event) => {
    event.preventDefault();
    if (running || !chosen || text.trim() === '') return;
    const asked: Message[] = [...messages, { role: 'user', content: text.trim() }];
    const body: ChatRequest = {
      model: chosen,
      messages: asked,
      max_tokens: MAX_TOKENS,
      stream: true,
      stream_options: { include_usage: true },
    };
    const stop = new AbortController();
    const began = performance.now();
    const after = () => performance.now() - began;
    let answer = '';
    setMessages([...asked, { role: 'assistant', content: '' }]);
    setText('');
    setSent(body);
    setReasoning('');
    setProblem(null);
    setMeasured(NOTHING);
    setRunning(stop);
    try {
      await chat(body, stop.signal, ({ jobId, text: more, reasoning: thought, usage }) => {
        if (jobId !== undefined) setMeasured((known) => ({ ...known, jobId }));
        if (usage) setMeasured((known) => ({ ...known, usage }));
        if (thought) setReasoning((known) => known + thought);
        if (more || thought)
          setMeasured((known) => ({ ...known, firstTokenMs: known.firstTokenMs ?? after() }));
        if (!more) return;
        answer += more;
        setMessages([...asked, { role: 'assistant', content: answer }]);
      });
    } catch (error) {
      if (!stop.signal.aborted) setProblem((error as Error).message);
    } finally {
      setMeasured((known) => ({ ...known, totalMs: after() }));
      // An answer that never began is nothing to go on from.
      if (answer === '') setMessages(messages);
      setRunning(null);
    }
  };

  return (
    <section class="view try" aria-labelledby="try-title">
      <div class="tools">
        <h1 id="try-title">Try it</h1>
        <label class="select">
          Model{' '}
          <select value={chosen} onChange={(event) => setModel(event.currentTarget.value)}>
            {models.map((id) => (
              <option key={id} value={id}>
                {id}
              </option>
            ))}
          </select>
        </label>
        {messages.length > 0 && !running && (
          <button type="button" onClick={() => setMessages([])}>
            New chat
          </button>
        )}
      </div>
      {models.length === 0 && (
        <p class="notice">
          No model is served yet. <a href={href('')}>The fleet</a> says why, and how to add a worker.
        </p>
      )}
      {session.value && !maySubmit.value && (
        <p class="notice">
          The token you are signed in with may not submit: sign in with one that has the scope submit (
          <code>npx worker-vllm token create --scope read,submit</code>).
        </p>
      )}
      <ol class="chat" aria-label="Chat" aria-live="polite" aria-busy={running !== null}>
        {messages.map(({ role, content }, index) => (
          <li key={index} class={role}>
            <b>{role === 'user' ? 'You' : (sent?.model ?? 'Model')}</b>
            {role === 'assistant' && index === messages.length - 1 && reasoning && (
              <details>
                <summary>Reasoning</summary>
                <p class="said dim">{reasoning}</p>
              </details>
            )}
            <p class="said">{content || (running ? '…' : '')}</p>
          </li>
        ))}
      </ol>
      <Problem text={problem} />
      {sent && <Measures measured={measured} isRunning={running !== null} />}
      <form class="ask" onSubmit={send}>
        <label class="unseen" for="prompt">
          Message
        </label>
        <Prompt text={text} onText={setText} onSend={send} />
        {running ? (
          <button type="button" onClick={() => running.abort()}>
            Stop
          </button>
        ) : (
          <button type="submit" class="primary" disabled={!chosen || text.trim() === ''}>
            Send
          </button>
        )}
      </form>
      <h2>{sent ? 'The same from a shell' : 'From a shell'}</h2>
      <Command text={curlOf('v1/chat/completions', sent ?? example(chosen))} />
    </section>
  );
}

function example(model: string) {
  return { model: model || 'default', messages: [{ role: 'user', content: 'Say hello.' }], stream: true };
}

interface PromptProps {
  text: string;
  onText(text: string): void;
  onSend(event: Event): void;
}

/** Enter sends, Shift and Enter is a new line. */
function Prompt({ text, onText, onSend }: PromptProps) {
  const area = useRef<HTMLTextAreaElement>(null);
  return (
    <textarea
      id="prompt"
      ref={area}
      rows={3}
      placeholder="Ask something. Enter sends."
      value={text}
      onInput={(event) => onText(event.currentTarget.value)}
      onKeyDown={(event) => {
        if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) onSend(event);
      }}
    />
  );
}

function Measures({ measured, isRunning }: { measured: Measured; isRunning: boolean }) {
  const { jobId, firstTokenMs, totalMs, usage } = measured;
  const rate =
    usage && firstTokenMs !== null && totalMs !== null && totalMs > firstTokenMs
      ? (usage.completion_tokens * 1000) / (totalMs - firstTokenMs)
      : null;
  return (
    <p class="measures number dim">
      first token after {format.duration(firstTokenMs)}
      {!isRunning && (
        <>
          {' · '}whole answer after {format.duration(totalMs)}
          {usage &&
            ` · ${format.count(usage.prompt_tokens)} tokens in, ${format.count(usage.completion_tokens)} out`}
          {rate !== null && ` · ${format.tokenRate(rate)}`}
        </>
      )}
      {jobId && !isRunning && (
        <>
          {' · '}
          <a href={href(`jobs/${encodeURIComponent(jobId)}`)}>where the time went</a>
        </>
      )}
    </p>
  );
}

/** The names that requests may have, as an application reads them; asked again when the fleet serves others. */
function useModels(): string[] {
  const [models, setModels] = useState<string[]>([]);
  const served = (fleet.value?.pools ?? []).map(({ config_id, models, ready_workers }) =>
    [config_id, ready_workers > 0, ...models].join(' '),
  );
  useEffect(() => {
    ask<{ data: { id: string }[] }>('v1/models').then(
      ({ data }) => setModels(data.map(({ id }) => id)),
      () => {},
    );
  }, [served.join('\n')]);
  return models;
}
