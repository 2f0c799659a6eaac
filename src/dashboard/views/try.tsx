import { useEffect, useRef, useState } from 'preact/hooks';
import * as format from '../../show/format.ts';
import { ask } from '../api.ts';
import { Command, Problem } from '../controls/action.tsx';
import { Chips } from '../controls/chips.tsx';
import { fleet } from '../live.ts';
import { at, href } from '../router.ts';
import { maySubmit, session } from '../session.ts';
import { SNIPPETS } from './snippets.ts';
import { ChatList, type ChatNews, chat } from './try-chat.tsx';
import { ImageField, SettingsForm } from './try-form.tsx';
import {
  type ChatRequest,
  callsAsText,
  faultOf,
  type Message,
  requestOf,
  USUAL,
  userMessage,
} from './try-request.ts';

interface Measured {
  jobId: string | null;
  /** The time from sending to the first token, ms. */
  firstTokenMs: number | null;
  totalMs: number | null;
  usage: ChatNews['usage'] | null;
}

const NOTHING: Measured = { jobId: null, firstTokenMs: null, totalMs: null, usage: null };

const EXAMPLE: Message[] = [{ role: 'user', content: 'Say hello.' }];

/** Shows a chat over the same route as any application's, and programs that do the same. */
export function TryView() {
  const models = useModels();
  const [model, setModel] = useState('');
  const [messages, setMessages] = useState<Message[]>([]);
  const [text, setText] = useState('');
  const [image, setImage] = useState('');
  const [settings, setSettings] = useState(USUAL);
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
    const fault = faultOf(settings);
    if (fault) return setProblem(fault);
    const asked = [...messages, userMessage(text.trim(), image)];
    const body = requestOf(chosen, asked, settings);
    const stop = new AbortController();
    const began = performance.now();
    const after = () => performance.now() - began;
    let answer = '';
    setMessages([...asked, { role: 'assistant', content: '' }]);
    setText('');
    setImage('');
    setSent(body);
    setReasoning('');
    setProblem(null);
    setMeasured(NOTHING);
    setRunning(stop);
    try {
      await chat(body, stop.signal, ({ jobId, text: more, reasoning: thought, toolCalls, usage }) => {
        if (jobId !== undefined) setMeasured((known) => ({ ...known, jobId }));
        if (usage) setMeasured((known) => ({ ...known, usage }));
        if (thought) setReasoning((known) => known + thought);
        if (more || thought || toolCalls)
          setMeasured((known) => ({ ...known, firstTokenMs: known.firstTokenMs ?? after() }));
        if (more) answer += more;
        // Tool calls stand in the chat as text, since this page does not ask for the tools' results.
        else if (toolCalls) answer = callsAsText(toolCalls);
        else return;
        setMessages([...asked, { role: 'assistant', content: answer }]);
      });
    } catch (error) {
      if (!stop.signal.aborted) setProblem((error as Error).message);
    } finally {
      setMeasured((known) => ({ ...known, totalMs: after() }));
      // An answer that never began cannot be continued, so the chat returns to its state before.
      if (answer === '') setMessages(messages);
      setRunning(null);
    }
  };

  // The programs show the request that the typed text would make or, while nothing is typed, the last one sent.
  const isTyped = text.trim() !== '' && faultOf(settings) === null;
  const next = isTyped
    ? requestOf(chosen, [...messages, userMessage(text.trim(), image)], settings)
    : (sent ?? requestOf(chosen || 'default', EXAMPLE, faultOf(settings) ? USUAL : settings));

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
        <label class="check">
          <input
            type="checkbox"
            checked={settings.stream}
            onChange={(event) => setSettings({ ...settings, stream: event.currentTarget.checked })}
          />{' '}
          Stream
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
      <SettingsForm settings={settings} onChange={setSettings} />
      <ChatList
        messages={messages}
        model={sent?.model ?? 'Model'}
        reasoning={reasoning}
        isRunning={running !== null}
      />
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
      <ImageField image={image} onChange={setImage} />
      <SameElsewhere body={next} />
    </section>
  );
}

interface PromptProps {
  text: string;
  onText(text: string): void;
  onSend(event: Event): void;
}

/** Shows the field for a message: Enter sends it, Shift and Enter begins a new line. */
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

/**
 * Returns the models that requests may name, as an application reads them; they are read again when the fleet serves
 * others.
 */
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

const NAMES = Object.fromEntries(Object.entries(SNIPPETS).map(([key, { name }]) => [key, name]));

/** Shows the request as another program would make it. */
function SameElsewhere({ body }: { body: ChatRequest }) {
  const [language, setLanguage] = useState('curl');
  const target = { baseUrl: at('v1'), asksForToken: session.value?.asks_for_token === true };
  const text = SNIPPETS[language]!.of(target, body);
  const shown = text.replaceAll(/(data:[\w/+.-]+;base64,[\w+/]{20})[\w+/=]{40,}/g, '$1…');
  return (
    <section class="elsewhere" aria-labelledby="elsewhere-title">
      <div class="tools">
        <h2 id="elsewhere-title">The same elsewhere</h2>
        <Chips label="Language" chosen={language} options={NAMES} onChoose={setLanguage} />
      </div>
      <Command text={text} shown={shown} what="the program" />
      {shown !== text && <p class="dim">The image is shortened here; Copy takes all of it.</p>}
    </section>
  );
}
