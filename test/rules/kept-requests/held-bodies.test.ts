import { expect, it } from 'vitest';
import { HeldBodies } from '../../../src/features/kept-requests/held-bodies.ts';

const MIB = 1024 * 1024;

it('holds bodies and answers within one bound, until a request is over', () => {
  const bodies = new HeldBodies(4 * MIB);
  const requests = Array.from({ length: 33 }, () => ({}));
  const body = new Uint8Array(2 * MIB);
  for (const request of requests.slice(0, 32)) {
    expect(bodies.hold(request, body, 0)).toBe(true);
    expect(bodies.more(bodies.of(request)!, 2 * MIB)).toBe(true);
  }
  expect(bodies.more(bodies.of(requests[0]!)!, 1)).toBe(false);
  expect(bodies.hold(requests[32]!, body, 0)).toBe(false);
  bodies.release(requests[0]!);
  bodies.release(requests[0]!);
  expect(bodies.hold(requests[32]!, body, 0)).toBe(true);
  expect(bodies.more(bodies.of(requests[32]!)!, 2 * MIB)).toBe(true);
  expect(bodies.more(bodies.of(requests[32]!)!, 1)).toBe(false);
});
