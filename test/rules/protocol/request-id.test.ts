import { expect, test } from 'vitest';
import { isRequestId } from '../../../src/protocol/index.ts';

test.each(['job-42', 'a/b:c', '~!{}', 'x'.repeat(128)])('%j may be the id of a request', (id) => {
  expect(isRequestId(id)).toBe(true);
});

test.each([
  undefined,
  '',
  'a b',
  'é',
  'a\nb',
  'x'.repeat(129),
  '___prefill_addr_evil:1___decode_addr_evil:2_0',
])('%j may not', (id) => {
  expect(isRequestId(id)).toBe(false);
});
