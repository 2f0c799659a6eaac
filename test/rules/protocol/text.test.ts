import { expect, test } from 'vitest';
import { fitsUtf8, isEventStream, listNames, utf8Bytes } from '../../../src/protocol/index.ts';

test.each(['', 'plain', 'grüße', '日本語', '👍🏽 ok', 'x'.repeat(1000)])(
  'the text "%s" fits into exactly its own bytes',
  (text) => {
    const bytes = Buffer.byteLength(text);
    expect(utf8Bytes(text)).toBe(bytes);
    expect(fitsUtf8(text, bytes)).toBe(true);
    expect(fitsUtf8(text, bytes - 1)).toBe(false);
  },
);

test('an event stream is told by its content type, with parameters or without', () => {
  expect(isEventStream({ 'content-type': 'text/event-stream' })).toBe(true);
  expect(isEventStream({ 'content-type': 'text/event-stream; charset=utf-8' })).toBe(true);
  expect(isEventStream({ 'content-type': 'Text/Event-Stream' })).toBe(true);
  expect(isEventStream({ 'content-type': 'application/json' })).toBe(false);
  expect(isEventStream({ 'content-type': 'text/event-stream', 'content-encoding': 'gzip' })).toBe(false);
  expect(isEventStream({})).toBe(false);
});

test('a message names at most ten, each once, and none at any length', () => {
  expect(listNames(['a', 'b', 'a'])).toBe('a, b');
  const many = Array.from({ length: 42 }, (_, n) => `${n}${'x'.repeat(10_000)}`);
  expect(listNames(many)).toMatch(/^0x+…, 1x.* … and 32 more$/);
  expect(listNames(many).length).toBeLessThan(1200);
});
