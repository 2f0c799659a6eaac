import { describe, expect, it } from 'vitest';
import { RelayHarness, sse, text } from '../../support/relay-harness.ts';

describe('an answer through the relay', () => {
  it('is given nothing of the relay’s own in the middle of an event', () => {
    const harness = new RelayHarness();
    const { caller } = harness.open(1);
    harness.say(
      { type: 'head', stream: 1, head: sse },
      { type: 'bytes', stream: 1, offset: 0, data: text('data: a part') },
    );
    harness.advance(5);
    expect(caller.received).toBe('data: a part');
    harness.say({ type: 'bytes', stream: 1, offset: 12, data: text('\r\n\r') });
    harness.advance(5);
    expect(caller.received).toBe('data: a part\r\n\r');
    harness.say({ type: 'bytes', stream: 1, offset: 15, data: text('\n') });
    harness.advance(5);
    expect(caller.received).toContain('\r\n\r\n: keep-alive\n\n');
    harness.say({ type: 'bytes', stream: 1, offset: 16, data: text('data: cut') });
    harness.relay.breakStream(1, { message: 'lost', code: 'worker_died', retryable: true });
    expect(caller).toMatchObject({ broken: 'lost', mayAddEvent: false });
    const whole = harness.open(2);
    harness.say(
      { type: 'head', stream: 2, head: sse },
      { type: 'bytes', stream: 2, offset: 0, data: text('data: a\n\n') },
    );
    harness.relay.breakStream(2, { message: 'lost', code: 'worker_died', retryable: true });
    expect(whole.caller).toMatchObject({ broken: 'lost', mayAddEvent: true });
  });

  it('that cannot be read fails for its own caller, and the socket stays', () => {
    const harness = new RelayHarness();
    const [odd, fine] = [harness.open(1), harness.open(2)];
    let closed = false;
    harness.socket.close = () => {
      closed = true;
    };
    harness.say(
      { type: 'head', stream: 1, head: { status: 999, headers: {} } },
      { type: 'head', stream: 2, head: sse },
      { type: 'bytes', stream: 2, offset: Number.NaN, data: text('a') },
      { type: 'bytes', stream: 3, offset: 0, data: text('a') },
    );
    expect(odd.openings).toMatchObject([{ ok: false, reason: { code: 'worker_error', retryable: false } }]);
    expect(fine.openings).toMatchObject([{ ok: false }]);
    expect(harness.sent.filter(({ type }) => type === 'cancel')).toMatchObject([
      { stream: 1 },
      { stream: 2 },
    ]);
    expect(closed).toBe(false);
  });
});
