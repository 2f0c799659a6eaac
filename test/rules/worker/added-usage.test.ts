import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { chatShapes, completionShapes, type Shapes } from '../../../src/simulator/shapes.ts';
import { AddedUsage } from '../../../src/worker/answers/added-usage.ts';
import type { Events } from '../../../src/worker/answers/events.ts';
import { CompletionWatch } from '../../../src/worker/run/completion-watch.ts';

const HEAD = { id: 'chatcmpl-1', model: 'tiny', created: 1 };
const FINISH = { reason: 'stop', stopReason: null } as never;
const USED = { prompt: 7, completion: 3 };
const ADDED = 'data: {"id":"x","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3}}\n\n';
const DONE = 'data: [DONE]\n\n';
const chunk = (fields: object) => `data: ${JSON.stringify({ id: 'x', ...fields })}\n\n`;
const token = (content: string, more: object = {}) =>
  chunk({ choices: [{ index: 0, delta: { content }, finish_reason: null }], ...more });
const finish = (more: object = {}) => chunk({ choices: [{ delta: {}, finish_reason: 'stop' }], ...more });

/** What is left of a stream that comes in these pieces. */
function left(pieces: readonly Uint8Array[]): string {
  const watch = new CompletionWatch();
  const added = new AddedUsage();
  const pass = (events: Events | null) => (events && added.push(events))?.text ?? '';
  const kept = pieces.map((piece) => pass(watch.see(piece)));
  kept.push(pass(watch.end()), added.end()?.text ?? '');
  return Buffer.from(kept.join(''), 'latin1').toString();
}

/** The pieces of a text cut at these places. */
function cut(text: string, places: readonly number[]): Uint8Array[] {
  const bytes = Buffer.from(text);
  const at = [0, ...[...places].sort((a, b) => a - b), bytes.byteLength];
  return at.slice(1).map((end, index) => bytes.subarray(at[index], end));
}

function expectAtEveryCut(given: string, expected: string): void {
  const { byteLength } = Buffer.from(given);
  expect(left([Buffer.from(given)])).toBe(expected);
  for (let at = 1; at < byteLength; at += 1) expect(left(cut(given, [at]))).toBe(expected);
  expect(left([...Buffer.from(given)].map((byte) => Buffer.from([byte])))).toBe(expected);
}

/** A stream as vLLM sends it, for a caller that asked for usage or did not. */
function streamOf(shapes: Shapes, isAsked: boolean, choices: number): string {
  let text = '';
  for (let index = 0; index < choices; index += 1) text += shapes.opening(HEAD, index, null) ?? '';
  for (let index = 0; index < choices; index += 1)
    text += shapes.text(HEAD, index)('Grüße ', null, false, null);
  for (let index = 0; index < choices; index += 1) {
    const isLast = index === choices - 1;
    text += shapes.text(HEAD, index)('"usage":{}', FINISH, isLast && !isAsked, null);
  }
  return `${text}${isAsked ? shapes.usage(HEAD, USED) : ''}${shapes.done}`;
}

describe('a stream whose caller did not ask for usage', () => {
  it('passes at once where an engine writes an empty reason into each event', () => {
    const added = new AddedUsage();
    const watch = new CompletionWatch();
    const event = chunk({ choices: [{ index: 0, delta: { content: 'a' }, finish_reason: '' }] });
    expect(added.push(watch.see(Buffer.from(event))!)?.text).toBe(event);
  });

  it.each([
    ['chat', chatShapes, 1],
    ['chat with two choices', chatShapes, 2],
    ['text', completionShapes, 1],
  ])('is what vLLM would have sent without it: %s', (_, shapes, choices) => {
    expectAtEveryCut(streamOf(shapes, true, choices), streamOf(shapes, false, choices));
  });

  it.each([
    ['the event', `${token('a')}${finish()}${ADDED}${DONE}`, `${token('a')}${finish()}${DONE}`],
    [
      'an event with blanks in it',
      `${token('a')}data:${ADDED.slice(5).replaceAll(':', ': ')}${DONE}`,
      `${token('a')}${DONE}`,
    ],
    [
      'an event that ends as on Windows',
      `data: {"x":1}\r\n\r\n${ADDED.replaceAll('\n', '\r\n')}data: [DONE]\r\n\r\n`,
      'data: {"x":1}\r\n\r\ndata: [DONE]\r\n\r\n',
    ],
    ['the last event of a stream without an end mark', `${token('a')}${ADDED}`, token('a')],
    [
      'no comment around it',
      `: alive\n\n${token('a')}: alive\n\n${ADDED}: alive\n\n${DONE}`,
      `: alive\n\n${token('a')}: alive\n\n: alive\n\n${DONE}`,
    ],
  ])('loses %s and nothing else', (_, given, expected) => {
    expectAtEveryCut(given, expected);
  });

  const usage = { prompt_tokens: 7, completion_tokens: 1 };
  it.each([
    ['a usage beside choices', `${token('a')}${finish({ usage })}${DONE}`],
    [
      'an engine that counts in every event, and its last one',
      `${token('a', { usage })}${finish({ usage })}${ADDED}${DONE}`,
    ],
    ['a usage that is null', `${token('a', { usage: null })}${finish({ usage: null })}${DONE}`],
    ['choices that are empty, without a usage', `${chunk({ choices: [] })}${token('a')}${DONE}`],
    ['a text that speaks of it', `${token('{"choices":[],"usage":{"prompt_tokens":1}}')}${DONE}`],
    [
      'an event of another kind with a usage',
      `data: {"type":"response","usage":{"input_tokens":1}}\n\n${DONE}`,
    ],
    ['an event that was cut off', `${token('a')}${ADDED.slice(0, -9)}`],
  ])('keeps %s', (_, stream) => {
    expectAtEveryCut(stream, stream);
  });

  it('gives a number back as the engine wrote it', () => {
    const added = ADDED.replace(',"usage"', ',"load":1.0,"usage"');
    const expected = `${finish().replace(/}\n\n$/, ',"load":1.0}\n\n')}${DONE}`;
    expectAtEveryCut(`${finish()}${added}${DONE}`, expected);
  });

  it('keeps a blank line that comes with the next piece', () => {
    expect(left([Buffer.from(`${finish()}\n`), Buffer.from(`\n${ADDED}`)])).toBe(`${finish()}\n\n`);
  });

  it('keeps every other byte, wherever it is cut', () => {
    const events = fc.array(
      fc.oneof(
        fc.string().map((text) => token(text)),
        fc.constantFrom(': alive\n\n', finish(), 'event: x\ndata: 1\n\n', 'data: {broken\n\n', '\n\n'),
      ),
      { maxLength: 8 },
    );
    fc.assert(
      fc.property(events, events, fc.array(fc.nat(2000), { maxLength: 12 }), (before, after, places) => {
        const expected = before.join('') + after.join('');
        const given = before.join('') + ADDED + after.join('');
        const { byteLength } = Buffer.from(given);
        // What begins inside an event is no event.
        fc.pre(before.every((event) => event.endsWith('\n\n')));
        expect(
          left(
            cut(
              given,
              places.map((place) => place % (byteLength + 1)),
            ),
          ),
        ).toBe(expected);
      }),
    );
  });
});
