import { OddEngine, rawAnswer } from './odd-engine.ts';

const HEAD = ['HTTP/1.1 200 OK', 'content-type: text/event-stream'];

const chunkOf = (text: string, finish: string | null = null) =>
  JSON.stringify({
    id: 'cmpl-1',
    object: 'text_completion',
    created: 1,
    model: 'tiny',
    choices: [{ index: 0, text, delta: { content: text }, finish_reason: finish, logprobs: null }],
  });

/** Says "one two three", and is silent for some seconds before each word; `ids`: its events are numbered. */
export function silentEngine({ ids, silentMs }: { ids: boolean; silentMs: number }): OddEngine {
  const engine = new OddEngine();
  const idOf = (n: number) => (ids ? `id: ${n}\n` : '');
  engine.answer = (socket) => {
    socket.write(rawAnswer(HEAD, ''));
    const events = [
      `${idOf(1)}data: ${chunkOf('one')}\n\n`,
      `${idOf(2)}data: ${chunkOf(' two')}\n\n`,
      `${idOf(3)}data: ${chunkOf(' three', 'stop')}\n\n`,
      'data: [DONE]\n\n',
    ];
    const next = () => {
      const event = events.shift();
      if (event === undefined) return socket.end();
      socket.write(event);
      setTimeout(next, events.length > 0 ? silentMs : 0);
    };
    setTimeout(next, silentMs);
  };
  return engine;
}
