import { expect, it } from 'vitest';
import { movePlan } from '../../../src/moving/plan.ts';
import type { MovePlan } from '../../../src/protocol/index.ts';
import { Events } from '../../../src/worker/answers/events.ts';
import { StopHold } from '../../../src/worker/answers/stop-hold.ts';
import { Random } from '../../support/random.ts';

const PATH = { chat: '/v1/chat/completions', text: '/v1/completions' } as const;
type Form = keyof typeof PATH;

function holdOf(form: Form, stop: unknown, more: object = {}): StopHold {
  const prompt = form === 'chat' ? { messages: [] } : { prompt: 'a' };
  return StopHold.of(
    movePlan(PATH[form], JSON.stringify({ ...prompt, stream: true, stop, ...more })) as MovePlan,
  )!;
}

function event(form: Form, text: string, finish: object = { finish_reason: null }): string {
  const said = form === 'chat' ? { delta: { content: text } } : { text };
  return `data: ${JSON.stringify({ choices: [{ index: 0, ...said, ...finish }] })}\n\n`;
}

/** An engine that shows its stop string: text after a stop is not generated. */
function engine(form: Form, pieces: readonly string[], stops: readonly string[]): string[] {
  const events: string[] = [];
  let text = '';
  for (const piece of pieces) {
    text += piece;
    const ends = stops.filter((stop) => text.includes(stop)).map((stop) => text.indexOf(stop) + stop.length);
    if (ends.length === 0) {
      events.push(event(form, piece));
      continue;
    }
    const end = Math.min(...ends);
    const stop_reason = stops.find((stop) => text.slice(0, end).endsWith(stop));
    const shown = piece.slice(0, piece.length - (text.length - end));
    return [...events, event(form, shown, { finish_reason: 'stop', stop_reason })];
  }
  return [...events, event(form, '', { finish_reason: 'length', stop_reason: null })];
}

/** Gives events to a hold. @returns the text of those that it releases; null: none */
const pushed = (hold: StopHold, events: string) => text(hold.push(Events.ofBytes(Buffer.from(events))));
const text = (events: Events | null) => events && Buffer.from(events.bytes).toString();

function textIn(events: string): string {
  const told = [...events.matchAll(/^data: (\{[^\n]*\})$/gm)].map(
    ([, json = '']) => JSON.parse(json).choices[0],
  );
  return told.map(({ delta, text }) => delta?.content ?? text).join('');
}

const plainText = (text: string, stops: readonly string[]) =>
  text.slice(0, Math.min(text.length, ...stops.map((stop) => text.indexOf(stop)).filter((at) => at >= 0)));

it('gives the text until the stop string, and may be cut wherever it has given something', () => {
  for (let seed = 1; seed <= 400; seed++) {
    const random = new Random(seed, 'stops');
    const form = random.pick(['chat', 'text'] as const);
    // Of one length, so that no stop string ends within another.
    const length = random.int(1, 4);
    const letters = (count: number) =>
      Array.from({ length: count }, () => random.pick(['a', 'b', '\u2028'])).join('');
    const stops = Array.from({ length: random.int(1, 3) }, () => letters(length));
    const pieces = Array.from({ length: 30 }, () => letters(random.int(0, 3)));
    const hold = holdOf(form, stops);
    let given = '';
    for (const said of engine(form, pieces, stops)) {
      const released = pushed(hold, said);
      if (released === null) continue;
      given += textIn(released);
      // What begins there has all of a stop string that may come.
      const begun = stops.some((stop) =>
        Array.from(stop, (_, at) => stop.slice(0, at)).some((part) => part !== '' && given.endsWith(part)),
      );
      if (!said.includes('"finish_reason":"')) expect([hold.stays, begun]).toEqual([false, false]);
    }
    expect(given).toBe(plainText(pieces.join(''), stops));
    expect(hold.end(false)).toBeNull();
  }
});

it('leaves the stop string where its caller wants to see it', () => {
  const hold = holdOf('chat', ['END'], { include_stop_str_in_output: true });
  const events = engine('chat', ['so E', 'N', 'D more'], ['END']);
  expect(events.map((one) => pushed(hold, one) !== null)).toEqual([false, false, true]);
  const shown = holdOf('chat', ['END'], { include_stop_str_in_output: true });
  expect(textIn(pushed(shown, events.join(''))!)).toBe('so END');
});

it('passes all other events on in their order, and what is held when the answer breaks off', () => {
  const hold = holdOf('chat', 'END');
  const opening = 'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n';
  expect(pushed(hold, opening)).toBe(opening);
  expect(pushed(hold, event('chat', 'an E'))).toBeNull();
  expect(pushed(hold, ': comment\n\n')).toBeNull();
  expect(hold.end(true)).toBeNull();
  expect([text(hold.end(false)), hold.stays]).toEqual([`${event('chat', 'an E')}: comment\n\n`, true]);
});

it('holds no more than some events: then the answer stays, and the stop string is taken out all the same', () => {
  const hold = holdOf('chat', '--END');
  let given = '';
  let stays = false;
  for (const said of engine('chat', [...Array(100).fill('-'), 'END', ' more'], ['--END'])) {
    given += textIn(pushed(hold, said) ?? '');
    stays ||= hold.stays;
  }
  expect([given, stays]).toEqual(['-'.repeat(98), true]);
});

it('is not asked of strings that no engine takes, or long ones', () => {
  for (const stop of [[1], { a: 1 }, 'x'.repeat(1025)]) {
    expect(movePlan(PATH.text, JSON.stringify({ prompt: 'a', stream: true, stop }))).toMatch(/stop strings/);
  }
});
