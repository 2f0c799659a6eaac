import { describe, expect, it } from 'vitest';
import { openAIError } from '../../src/protocol/index.ts';
import { brokenEvents } from '../../src/relay/sse.ts';
import { chatShapes, DONE } from '../../src/simulator/shapes.ts';
import { tokenSource } from '../../src/simulator/text.ts';
import { type Asked, type Heard, judge, type Verdict } from './caller-verdict.ts';
import { chatPrompt, modelOf } from './engine-text.ts';
import type { Fault, FaultKind } from './faults.ts';

const NOON = Date.UTC(2026, 0, 1, 12);
const at = (seconds: number) => NOON + seconds * 1000;
const WORKERS = ['w1', 'w2'];
const TOKENS = 12;
const asked: Asked = {
  messages: [{ role: 'user', content: 'Hello' }],
  tokens: TOKENS,
  streams: true,
  hangsUp: false,
};

function fault(kind: FaultKind, worker: string | null, from: number, until: number): Fault {
  return { kind, worker, at: at(from), until: at(until), inFlight: 1 };
}
const queueKilled = [fault('kill_queue', null, 1, 5)];
const engineKilled = [fault('kill_engine', 'w1', 1, 5)];

/** Every event of an answer as an engine sends them: opening, one for each token, end mark. */
function eventsOf(worker: string, created = 1000, asks: Asked = asked): string[] {
  const head = { id: 'chatcmpl-j', model: modelOf(worker), created };
  const source = tokenSource(chatPrompt(asks.messages, head.model));
  const write = chatShapes.text(head, 0);
  const tokens = Array.from({ length: asks.tokens }, (_, place) => {
    const isLast = place === asks.tokens - 1;
    return write(source.next().text, isLast ? { reason: 'length', stopReason: null } : null, isLast, null);
  });
  return [chatShapes.opening(head, 0, null)!, ...tokens, DONE];
}

/** The verdict on an answer that came from second 2 to second 3, unless told otherwise. */
function verdict(text: string | Uint8Array, other: Partial<Heard> = {}, faults: Fault[] = []): Verdict {
  const bytes = typeof text === 'string' ? Buffer.from(text) : text;
  const heard: Heard = { from: at(2), to: at(3), status: 200, jobId: 'j', bytes, end: 'closed', ...other };
  return judge(asked, heard, WORKERS, faults);
}

const whole = eventsOf('w1');
const isWrong = { wrong: expect.any(String) };

describe('a stream of a caller', () => {
  it('is whole with every token in order and the end mark, comments or not', () => {
    expect(verdict(whole.join(''))).toEqual({ ending: 'whole' });
    expect(verdict(eventsOf('w2').join(''))).toEqual({ ending: 'whole' });
    const kept = [...whole.slice(0, 4), ': keep-alive\n\n', ...whole.slice(4)];
    expect(verdict(kept.join(''))).toEqual({ ending: 'whole' });
  });

  it('is wrong when it repeats, misses or swaps a token', () => {
    for (let place = 1; place <= TOKENS; place++) {
      expect(verdict(whole.toSpliced(place, 0, whole[place]!).join('')), `${place} twice`).toEqual(isWrong);
      expect(verdict(whole.toSpliced(place, 1).join('')), `without ${place}`).toEqual(isWrong);
    }
    expect(verdict(whole.with(3, whole[5]!).with(5, whole[3]!).join(''))).toEqual(isWrong);
  });

  it('is wrong when two attempts, two workers or two requests are mixed in it', () => {
    const mixed = (other: string[], place: number) =>
      [...whole.slice(0, place), ...other.slice(place)].join('');
    for (const place of [1, 2, 6, TOKENS]) {
      expect(verdict(mixed(eventsOf('w2'), place)), `w2 from ${place}`).toEqual(isWrong);
      expect(verdict(mixed(eventsOf('w1', 1001), place)), `another attempt from ${place}`).toEqual(isWrong);
    }
    expect(verdict([...whole.slice(0, 4), ...whole].join(''))).toEqual(isWrong);
    const otherRequest = { ...asked, messages: [{ role: 'user' as const, content: 'Other' }] };
    expect(verdict(eventsOf('w1', 1000, otherRequest).join(''))).toEqual(isWrong);
    expect(verdict(whole.join('').replaceAll('chatcmpl-j', 'chatcmpl-k'))).toEqual(isWrong);
  });

  it('may not end in silence, within an event, too early or with more after the end', () => {
    expect(verdict('')).toEqual(isWrong);
    expect(verdict(whole.slice(0, 5).join(''))).toEqual(isWrong);
    expect(verdict(whole.slice(0, -1).join(''))).toEqual(isWrong);
    expect(verdict(whole.join('').slice(0, -1))).toEqual(isWrong);
    expect(verdict([...whole.slice(0, 5), DONE].join(''))).toEqual(isWrong);
    expect(verdict([...whole, DONE].join(''))).toEqual(isWrong);
    expect(verdict(Buffer.from(whole.join('')).with(300, 0xff))).toEqual(isWrong);
  });

  it('ends with one error in the shape of OpenAI that a fault of its worker accounts for', () => {
    const broken = Buffer.from(
      brokenEvents({ message: 'it died', code: 'engine_died', retryable: true }, 'openai'),
    ).toString();
    const begun = whole.slice(0, 5).join('');
    const ended = { ending: 'error', error: 'engine_died in the stream' };
    expect(verdict(begun + broken, {}, engineKilled)).toEqual(ended);
    expect(verdict(broken, {}, engineKilled)).toEqual(ended);
    expect(verdict(begun + broken)).toEqual(isWrong);
    expect(verdict(begun + broken, {}, [fault('kill_engine', 'w2', 1, 5)])).toEqual(isWrong);
    expect(verdict(begun + broken, {}, [fault('kill_engine', 'w1', 4, 9)])).toEqual(isWrong);
    expect(verdict(begun + broken + whole[5], {}, engineKilled)).toEqual(isWrong);
    expect(verdict(begun + broken.replace(DONE, '') + whole[5], {}, engineKilled)).toEqual(isWrong);
    expect(verdict(`${begun}data: {"error":"it died"}\n\n${DONE}`, {}, engineKilled)).toEqual(isWrong);
    // What came before it must be right too.
    expect(verdict(whole.slice(0, 5).toSpliced(2, 1).join('') + broken, {}, engineKilled)).toEqual(isWrong);
  });

  it('may break off for what happens to calls alone: a grace that ends, a drain that leaves no time', () => {
    const brokenWith = (code: string, ...kinds: FaultKind[]) => {
      const events = Buffer.from(brokenEvents({ message: 'm', code, retryable: true }, 'openai')).toString();
      const faults = kinds.map((kind) => fault(kind, 'w1', 1, 5));
      return verdict(whole.slice(0, 5).join('') + events, {}, faults);
    };
    expect(brokenWith('worker_died', 'half_open')).toMatchObject({ ending: 'error' });
    expect(brokenWith('worker_died', 'cut')).toEqual(isWrong);
    expect(brokenWith('draining', 'drain')).toMatchObject({ ending: 'error' });
    expect(brokenWith('draining', 'kill_queue', 'cut')).toEqual(isWrong);
    expect(brokenWith('unheard_of', 'kill_engine', 'kill_worker', 'kill_queue')).toEqual(isWrong);
  });

  it('may break only with the queue, and only what came until then is asked for', () => {
    const cut = whole.join('').slice(0, 1500);
    expect(verdict(cut, { end: 'broken' }, queueKilled)).toEqual({ ending: 'broken' });
    expect(verdict('', { end: 'broken', status: null }, queueKilled)).toEqual({ ending: 'broken' });
    expect(verdict(cut, { end: 'broken' })).toEqual(isWrong);
    expect(verdict(cut, { end: 'broken' }, engineKilled)).toEqual(isWrong);
    // The queue has long been back, or is not yet killed.
    expect(verdict(cut, { end: 'broken', to: at(9) }, queueKilled)).toEqual(isWrong);
    expect(verdict(cut, { end: 'broken', to: at(0.2), from: at(0) }, queueKilled)).toEqual(isWrong);
    const repeated = whole.slice(0, 5).toSpliced(2, 0, whole[2]!).join('');
    expect(verdict(repeated, { end: 'broken' }, queueKilled)).toEqual(isWrong);
  });

  it('is hung up on only by callers that do so', () => {
    const cut = Buffer.from(whole.join('').slice(0, 1500));
    const heard: Heard = { from: at(2), to: at(3), status: 200, jobId: 'j', bytes: cut, end: 'hung_up' };
    expect(judge({ ...asked, hangsUp: true }, heard, WORKERS, [])).toEqual({ ending: 'hung_up' });
    expect(judge(asked, heard, WORKERS, [])).toEqual(isWrong);
  });

  it('is refused with a status to try again and an error in the shape of OpenAI, for a reason', () => {
    const refused = JSON.stringify(openAIError({ status: 503, message: 'no worker', code: 'no_worker' }));
    const shown = { ending: 'error', error: '503 no_worker' };
    expect(verdict(refused, { status: 503 }, queueKilled)).toEqual(shown);
    expect(verdict(refused, { status: 503 })).toEqual(isWrong);
    expect(verdict(refused, { status: 404 }, queueKilled)).toEqual(isWrong);
    expect(verdict('Internal Server Error', { status: 500 }, queueKilled)).toEqual(isWrong);
    expect(verdict('{"error":{"message":"m"}}', { status: 503 }, queueKilled)).toEqual(isWrong);
    const own = JSON.stringify(openAIError({ status: 502, message: 'no relay', code: 'worker_error' }));
    expect(verdict(own, { status: 502 }, queueKilled)).toEqual({
      ending: 'error',
      error: '502 worker_error',
    });
    expect(verdict(own, { status: 502 }, engineKilled)).toEqual(isWrong);
  });
});

describe('an answer in one piece', () => {
  const head = { id: 'chatcmpl-j', model: modelOf('w1'), created: 1000 };
  const inOnePiece = (text: string, other: Partial<Heard> = {}, faults: Fault[] = []) => {
    const bytes = Buffer.from(text);
    const heard: Heard = { from: at(2), to: at(3), status: 200, jobId: 'j', bytes, end: 'closed', ...other };
    return judge({ ...asked, streams: false }, heard, WORKERS, faults);
  };
  const source = tokenSource(chatPrompt(asked.messages, head.model));
  const text = Array.from({ length: TOKENS }, () => source.next().text).join('');
  const bodyWith = (content: string) => {
    const choice = { text: content, finish: { reason: 'length' as const, stopReason: null } };
    return JSON.stringify(chatShapes.whole(head, [choice], { prompt: 1, completion: TOKENS }));
  };

  it('is the whole text of one worker, after blanks or not', () => {
    expect(inOnePiece(bodyWith(text))).toEqual({ ending: 'whole' });
    expect(inOnePiece(`\n\n${bodyWith(text)}`)).toEqual({ ending: 'whole' });
    for (const other of [text.slice(1), text.slice(0, -1), text + text, '']) {
      expect(inOnePiece(bodyWith(other))).toEqual(isWrong);
    }
    expect(inOnePiece('')).toEqual(isWrong);
  });

  it('breaks with the queue, or when it went wrong after it was begun with blanks', () => {
    const late = { end: 'broken' as const, to: at(13) };
    const shown = { ending: 'error', error: 'broken after it was begun with blanks' };
    expect(inOnePiece('\n\n', late, engineKilled)).toEqual(shown);
    expect(inOnePiece('\n\n', late)).toEqual(isWrong);
    expect(inOnePiece('\n\n{"error":{}}', late, engineKilled)).toEqual(shown);
    expect(inOnePiece('\n\n', { ...late, to: at(3) }, engineKilled)).toEqual(isWrong);
    expect(inOnePiece('\n{"id"', late, engineKilled)).toEqual(isWrong);
    expect(inOnePiece('', { end: 'broken' }, queueKilled)).toEqual({ ending: 'broken' });
  });
});
