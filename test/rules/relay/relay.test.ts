import { describe, expect, it } from 'vitest';
import type { AnswerRecord } from '../../../src/protocol/index.ts';
import { RelayHarness, sse, text } from '../../support/relay-harness.ts';

describe('an answer through the relay', () => {
  it('reaches the caller with the engine’s own head and bytes, whoever comes first', () => {
    const early = new RelayHarness();
    const first = early.open(1);
    early.say(
      { type: 'head', stream: 1, head: sse },
      { type: 'bytes', stream: 1, offset: 0, data: text('ab') },
    );
    early.say({ type: 'bytes', stream: 1, offset: 2, data: text('cd') }, { type: 'end', stream: 1, size: 4 });
    expect(first.openings).toEqual([{ ok: true, head: sse }]);
    expect(first.caller).toMatchObject({ received: 'abcd', ended: true });

    const late = new RelayHarness();
    late.say(
      { type: 'head', stream: 1, head: sse },
      { type: 'bytes', stream: 1, offset: 0, data: text('abcd') },
    );
    late.say({ type: 'end', stream: 1, size: 4 });
    const second = late.open(1);
    expect(second.caller).toMatchObject({ received: 'abcd', ended: true });
  });

  it('drops what it has and asks again from where a hole begins', () => {
    const harness = new RelayHarness();
    const { caller } = harness.open(1);
    harness.say(
      { type: 'head', stream: 1, head: sse },
      { type: 'bytes', stream: 1, offset: 0, data: text('abc') },
    );
    harness.say({ type: 'bytes', stream: 1, offset: 1, data: text('bcde') });
    harness.say({ type: 'bytes', stream: 1, offset: 9, data: text('z') });
    expect(caller.received).toBe('abcde');
    expect(harness.sent.at(-1)).toEqual({ type: 'taken', stream: 1, offset: 5 });
    harness.say({ type: 'end', stream: 1, size: 9 });
    expect(caller.ended).toBe(false);
    harness.say(
      { type: 'bytes', stream: 1, offset: 5, data: text('fghi') },
      { type: 'end', stream: 1, size: 9 },
    );
    expect(caller).toMatchObject({ received: 'abcdefghi', ended: true });
  });

  it('has its worker told of its end together with others, within a second', () => {
    const harness = new RelayHarness();
    for (const stream of [1, 2, 3]) {
      harness.open(stream);
      harness.say(
        { type: 'head', stream, head: sse },
        { type: 'bytes', stream, offset: 0, data: text('abc') },
      );
    }
    harness.say({ type: 'end', stream: 1, size: 3 });
    expect(harness.sent).toEqual([]);
    harness.advance(1);
    expect(harness.sent).toEqual([{ type: 'taken', stream: 1, offset: 3 }]);
    harness.sent = [];
    harness.say({ type: 'end', stream: 2, size: 3 });
    harness.say({ type: 'end', stream: 3, size: 3 });
    expect(harness.sent).toEqual([]);
    harness.advance(1);
    expect(harness.sent).toEqual([2, 3].map((stream) => ({ type: 'taken', stream, offset: 3 })));
  });

  it('has its worker told of what was taken, at once of much, and with others of little', () => {
    const harness = new RelayHarness();
    const sizes = { little: 3 * 1024, much: 70 * 1024 };
    harness.open(1);
    harness.open(2);
    harness.say({ type: 'head', stream: 1, head: sse }, { type: 'head', stream: 2, head: sse });
    harness.say({ type: 'bytes', stream: 1, offset: 0, data: new Uint8Array(1000) });
    harness.say({ type: 'bytes', stream: 2, offset: 0, data: new Uint8Array(sizes.little) });
    expect(harness.sent).toEqual([]);
    harness.advance(1);
    const little: AnswerRecord = { type: 'taken', stream: 2, offset: sizes.little };
    expect(harness.sent).toEqual([little]);
    harness.sent = [];
    harness.say({ type: 'bytes', stream: 1, offset: 1000, data: new Uint8Array(sizes.much) });
    expect(harness.sent).toEqual([{ type: 'taken', stream: 1, offset: 1000 + sizes.much }]);
  });

  it('reports what was taken of many streams in one message', () => {
    const harness = new RelayHarness();
    const streams = Array.from({ length: 40 }, (_, index) => index + 1);
    for (const stream of streams) {
      harness.open(stream);
      harness.say({ type: 'head', stream, head: sse });
      harness.say({ type: 'bytes', stream, offset: 0, data: new Uint8Array(3 * 1024) });
    }
    const reported = harness.sent.map(({ stream }) => stream);
    expect(reported).toEqual(streams.slice(0, reported.length));
    expect(reported.length).toBeGreaterThan(16);
    expect(reported.length).toBeLessThan(streams.length);
    harness.advance(1);
    expect(harness.sent.map(({ stream }) => stream)).toEqual(streams);
  });

  it('goes on byte-exact over a new socket, telling the worker where each stream stands', () => {
    const harness = new RelayHarness();
    const { caller } = harness.open(1);
    harness.say(
      { type: 'head', stream: 1, head: sse },
      { type: 'bytes', stream: 1, offset: 0, data: text('abc') },
    );
    harness.relay.onSocketClosed(harness.socket);
    harness.advance(5);
    harness.sent = [];
    harness.connect();
    expect(harness.sent).toEqual([{ type: 'taken', stream: 1, offset: 3 }]);
    harness.say(
      { type: 'bytes', stream: 1, offset: 0, data: text('abcdef') },
      { type: 'end', stream: 1, size: 6 },
    );
    expect(caller.received.replaceAll(': keep-alive\n\n', '')).toBe('abcdef');
    expect(caller.ended).toBe(true);
  });

  it('stays paused over a new socket while its caller has not read on', () => {
    const harness = new RelayHarness();
    const { caller } = harness.open(1);
    caller.keepsUp = false;
    harness.say(
      { type: 'head', stream: 1, head: sse },
      { type: 'bytes', stream: 1, offset: 0, data: text('a') },
    );
    harness.sent = [];
    harness.connect();
    expect(harness.sent).toEqual([
      { type: 'taken', stream: 1, offset: 1 },
      { type: 'pause', stream: 1 },
    ]);
    harness.relay.onSocketClosed(harness.socket);
    harness.relay.callerReads(1);
    harness.sent = [];
    harness.connect();
    expect(harness.sent).toEqual([{ type: 'taken', stream: 1, offset: 1 }]);
  });

  it('can be tried elsewhere when it breaks before its first byte, and not after', () => {
    const harness = new RelayHarness();
    const reason = { message: 'engine died', code: 'engine_died', retryable: true };
    const silent = harness.open(1);
    harness.say({ type: 'head', stream: 1, head: sse }, { type: 'broken', stream: 1, reason });
    expect(silent.openings).toEqual([{ ok: false, reason }]);
    const begun = harness.open(2);
    harness.say(
      { type: 'head', stream: 2, head: sse },
      { type: 'bytes', stream: 2, offset: 0, data: text('a') },
      { type: 'broken', stream: 2, reason },
    );
    expect(begun.caller).toMatchObject({ received: 'a', broken: 'engine died', ended: false });
  });

  it('pauses the worker while the caller reads slowly, and before there is a caller', () => {
    const harness = new RelayHarness();
    const { caller } = harness.open(1);
    caller.keepsUp = false;
    harness.say(
      { type: 'head', stream: 1, head: sse },
      { type: 'bytes', stream: 1, offset: 0, data: text('a') },
    );
    harness.say({ type: 'bytes', stream: 1, offset: 1, data: text('b') });
    expect(harness.sent).toEqual([{ type: 'pause', stream: 1 }]);
    harness.relay.callerReads(1);
    expect(harness.sent.at(-1)).toEqual({ type: 'resume', stream: 1 });

    harness.say({ type: 'head', stream: 2, head: sse });
    harness.say({ type: 'bytes', stream: 2, offset: 0, data: new Uint8Array(1024 * 1024) });
    expect(harness.sent.some((record) => record.type === 'pause' && record.stream === 2)).toBe(true);
    harness.open(2);
    expect(harness.sent.at(-1)).toEqual({ type: 'resume', stream: 2 });
  });

  it('is cancelled at the worker when the caller hangs up, and again if the worker did not hear it', () => {
    const harness = new RelayHarness();
    harness.open(1);
    harness.say(
      { type: 'head', stream: 1, head: sse },
      { type: 'bytes', stream: 1, offset: 0, data: text('a') },
    );
    harness.relay.callerGone(1);
    const cancel = { type: 'cancel', stream: 1, reason: 'caller_gone' };
    expect(harness.sent).toEqual([cancel]);
    harness.say({ type: 'bytes', stream: 1, offset: 1, data: text('b') });
    expect(harness.sent).toEqual([cancel, cancel]);
  });

  it('ends for a caller that asks for it after it broke, or after it was cancelled', () => {
    const harness = new RelayHarness();
    harness.say(
      { type: 'head', stream: 1, head: sse },
      { type: 'bytes', stream: 1, offset: 0, data: text('data: a\n\n') },
      {
        type: 'broken',
        stream: 1,
        reason: { message: 'the engine died', code: 'engine_died', retryable: true },
      },
    );
    const { caller } = harness.open(1);
    expect([caller.received, caller.broken]).toEqual(['data: a\n\n', 'the engine died']);
    harness.relay.callerGone(2);
    expect(harness.open(2).openings).toMatchObject([{ ok: false, reason: { code: 'cancelled' } }]);
  });

  it('is cancelled at a worker that comes back after it was given up', () => {
    const harness = new RelayHarness();
    const { caller } = harness.open(1);
    harness.say(
      { type: 'head', stream: 1, head: sse },
      { type: 'bytes', stream: 1, offset: 0, data: text('data: a\n\n') },
    );
    harness.relay.onSocketClosed(harness.socket);
    harness.advance(12);
    expect(caller.broken).toContain('did not come back');
    harness.sent = [];
    harness.connect();
    harness.say({ type: 'bytes', stream: 1, offset: 9, data: text('data: b\n\n') });
    const cancel = { type: 'cancel', stream: 1, reason: 'superseded' };
    expect(harness.sent).toEqual([cancel, cancel]);
  });

  it('is cancelled when nobody ever asks for it, or when it goes on after the relay restarted', () => {
    const harness = new RelayHarness();
    harness.say({ type: 'head', stream: 1, head: sse });
    harness.advance(20);
    harness.relay.onPing();
    harness.advance(11);
    expect(harness.sent).toEqual([{ type: 'cancel', stream: 1, reason: 'caller_gone' }]);
    harness.say({ type: 'bytes', stream: 9, offset: 500, data: text('a') });
    expect(harness.sent.at(-1)).toEqual({ type: 'cancel', stream: 9, reason: 'caller_gone' });
  });

  it('is cancelled too when its worker only names it after the relay restarted, and not while its caller waits', () => {
    const harness = new RelayHarness();
    const { caller } = harness.open(2);
    for (const stream of [1, 2]) harness.say({ type: 'bytes', stream, offset: 0, data: text('') });
    harness.advance(20);
    harness.relay.onPing();
    harness.advance(11);
    const cancelled = harness.sent.filter(({ type }) => type === 'cancel');
    expect(cancelled).toEqual([{ type: 'cancel', stream: 1, reason: 'caller_gone' }]);
    harness.say(
      { type: 'head', stream: 2, head: sse },
      { type: 'bytes', stream: 2, offset: 0, data: text('a') },
    );
    expect(caller.received).toBe('a');
    harness.say({ type: 'bytes', stream: 9, offset: 500, data: text('') });
    expect(harness.sent.at(-1)).toEqual({ type: 'cancel', stream: 9, reason: 'caller_gone' });
  });

  it('opens with its first byte alone, and is then kept alive while it is silent, so that a hang-up shows', () => {
    const harness = new RelayHarness();
    const { caller, openings } = harness.open(1);
    harness.say({ type: 'head', stream: 1, head: sse });
    harness.advance(8);
    expect(openings).toEqual([]);
    harness.say({ type: 'bytes', stream: 1, offset: 0, data: text('data: 1\n\n') });
    expect(openings).toEqual([{ ok: true, head: sse }]);
    harness.advance(4);
    expect(caller.received).toMatch(/^data: 1\n\n(: keep-alive\n\n){3,}$/);
  });

  it('that the queue ends at its time limit says when its first token came', () => {
    const harness = new RelayHarness();
    const { caller } = harness.open(1);
    harness.advance(3);
    harness.relay.onPing();
    harness.say(
      { type: 'head', stream: 1, head: sse },
      { type: 'bytes', stream: 1, offset: 0, data: text('data: 1\n\n') },
    );
    const silent = harness.open(2);
    const reason = { message: 'it ran 5.0 s', code: 'deadline', retryable: false };
    for (const stream of [1, 2]) harness.relay.breakStream(stream, reason);
    expect(caller.broken).toBe('it ran 5.0 s, first token after 3.0 s');
    expect(silent.openings).toEqual([{ ok: false, reason }]);
  });

  it('breaks when the worker stays away longer than the grace, and at once when the queue says so', () => {
    const harness = new RelayHarness();
    const lost = harness.open(1);
    harness.relay.onSocketClosed(harness.socket);
    harness.advance(9);
    expect(lost.openings).toEqual([]);
    harness.advance(2);
    expect(lost.openings).toMatchObject([{ ok: false, reason: { retryable: true } }]);
    const told = harness.open(2);
    harness.relay.breakStream(2, { message: 'lost', code: 'worker_died', retryable: true });
    expect(told.openings).toMatchObject([{ ok: false, reason: { message: 'lost' } }]);
  });

  it('forgets streams that are over', () => {
    const harness = new RelayHarness();
    harness.open(1);
    harness.say({ type: 'head', stream: 1, head: sse }, { type: 'end', stream: 1, size: 0 });
    expect(harness.relay.isBusy).toBe(true);
    harness.advance(62);
    expect(harness.relay.isBusy).toBe(false);
  });
});
