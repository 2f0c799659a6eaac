import { expect, test } from 'vitest';
import { parseRequestTimeouts } from '../../../src/settings/request-timeouts.ts';

test('the first entry that fits gives the time limit of a route', () => {
  const timeouts = parseRequestTimeouts('/v1/embeddings=2.5, /v1/audio/*=300,*=600');
  expect(timeouts.of('/v1/embeddings')).toBe(2500);
  expect(timeouts.of('/v1/audio/speech')).toBe(300_000);
  expect(timeouts.of('/v1/chat/completions')).toBe(600_000);
  expect(parseRequestTimeouts('/v1/embeddings=30').of('/v1/responses')).toBeUndefined();
  expect(parseRequestTimeouts('').of('/v1/embeddings')).toBeUndefined();
});

test.each(['/v1/embeddings', '/v1/embeddings=', '=30', 'embeddings=30', '*=0', '*=-1', '*=1e9', '*=86401'])(
  'is not accepted: %s',
  (text) => {
    expect(() => parseRequestTimeouts(text)).toThrow(/expected path=seconds.*got "/);
  },
);
