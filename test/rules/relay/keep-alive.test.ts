import { describe, expect, it } from 'vitest';
import { RelayHarness, sse, text } from '../../support/relay-harness.ts';

/** What a caller is given of these pieces, with three silent seconds behind each. */
function heard(pieces: string[]): string {
  const harness = new RelayHarness();
  const { caller } = harness.open(1);
  harness.say({ type: 'head', stream: 1, head: sse });
  let offset = 0;
  for (const piece of pieces) {
    harness.say({ type: 'bytes', stream: 1, offset, data: text(piece) });
    offset += piece.length;
    harness.advance(3);
  }
  harness.relay.breakStream(1, { message: 'lost', code: 'worker_died', retryable: true });
  return caller.received;
}

describe('the comments of a silent stream', () => {
  it('have a blank line, and another comment stands between them and what follows', () => {
    expect(heard(['data: 1\n\n', 'data: 2\n\n'])).toMatch(
      /^data: 1\n\n(?:: keep-alive\n\n)+: \n\ndata: 2\n\n(?:: keep-alive\n\n)+$/,
    );
  });

  it.each(['id: 7\ndata: 1\n\n', 'data: 1\nid:7\n\n', 'event: a\r\nid: 7\r\ndata: 1\r\n\r\n'])(
    'have none behind an event with an id: %j',
    (first) => {
      const whole = heard([first, 'id: 8\ndata: 2\n\n']);
      expect(whole.slice(first.length)).toMatch(/^(?:: keep-alive\n)+id: 8\ndata: 2\n\n(?:: keep-alive\n)+$/);
    },
  );

  it('have one where an id is only spoken of', () => {
    expect(heard(['data: {"id":1,"text":"\\nid:"}\n\n'])).toContain(': keep-alive\n\n');
  });
});
