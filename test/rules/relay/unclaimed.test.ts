import { describe, expect, it } from 'vitest';
import { bounds } from '../../../src/protocol/index.ts';
import { RelayHarness, sse } from '../../support/relay-harness.ts';

const MIB = 1024 * 1024;

/** Gives a stream so many MiB, one record each, whatever the relay says. */
function give(harness: RelayHarness, stream: number, mebibytes: number, from = 0): void {
  if (from === 0) harness.say({ type: 'head', stream, head: sse });
  for (let index = from; index < from + mebibytes; index++) {
    harness.say({ type: 'bytes', stream, offset: index * MIB, data: new Uint8Array(MIB) });
  }
}

const streamsOf = (harness: RelayHarness, type: string) =>
  harness.sent.filter((record) => record.type === type).map(({ stream }) => stream);

describe('answers that no caller has asked for', () => {
  it('are paused together at a bound for the whole worker, and go on when their callers come', () => {
    const harness = new RelayHarness();
    const half = Math.floor(bounds.RELAY_BUFFER_BYTES / 2);
    const streams = Array.from({ length: 40 }, (_, index) => index + 1);
    for (const stream of streams) {
      harness.say({ type: 'head', stream, head: sse });
      harness.say({ type: 'bytes', stream, offset: 0, data: new Uint8Array(half) });
    }
    const paused = streamsOf(harness, 'pause');
    expect(paused.length).toBeGreaterThan(0);
    expect(paused).not.toContain(1);
    expect(paused).toContain(40);

    const { caller } = harness.open(40);
    expect(caller.received.length).toBe(half);
    expect(harness.sent.at(-1)).toEqual({ type: 'resume', stream: 40 });
    for (const stream of streams.slice(0, -1)) harness.open(stream);
    harness.say({ type: 'head', stream: 99, head: sse });
    harness.say({ type: 'bytes', stream: 99, offset: 0, data: new Uint8Array(half) });
    expect(streamsOf(harness, 'pause')).not.toContain(99);
  });

  it('are cancelled sooner while there is too much of them', () => {
    const harness = new RelayHarness();
    give(harness, 1, 1);
    harness.advance(6);
    expect(streamsOf(harness, 'cancel')).toEqual([]);
    for (let stream = 2; stream < 20; stream++) give(harness, stream, 1);
    harness.advance(1);
    expect(streamsOf(harness, 'cancel')).toContain(1);
    expect(harness.open(1).openings).toMatchObject([{ ok: false, reason: { code: 'cancelled' } }]);
    harness.relay.onPing();
    harness.advance(25);
    give(harness, 30, 1);
    harness.relay.onPing();
    harness.advance(6);
    expect(streamsOf(harness, 'cancel')).not.toContain(30);
  });

  it('are cut off at a hard bound where the worker sends on all the same', () => {
    const harness = new RelayHarness();
    const { caller } = harness.open(500);
    for (let stream = 1; stream <= 80; stream++) give(harness, stream, 1);
    const cancelled = streamsOf(harness, 'cancel');
    expect(cancelled).toContain(80);
    expect(cancelled).not.toContain(1);
    give(harness, 500, 1);
    expect(caller.received.length).toBe(MIB);
  });
});

it('an answer of a worker that sends on after it was paused is broken, whether its caller is there or not', () => {
  const harness = new RelayHarness();
  const { caller } = harness.open(1);
  caller.keepsUp = false;
  for (const stream of [1, 2]) give(harness, stream, 16);
  expect(caller.broken).toContain('told to pause');
  expect(streamsOf(harness, 'cancel')).toContain(2);
  expect(caller.received.length).toBeLessThanOrEqual(bounds.SENT_WHILE_PAUSED_BYTES + MIB);
});

it('counts what is held once, however a stream comes to its end', () => {
  const harness = new RelayHarness();
  for (let round = 0; round < 200; round++) {
    const ended = round * 3 + 1;
    give(harness, ended, 1);
    harness.say({ type: 'end', stream: ended, size: MIB });
    harness.open(ended);
    give(harness, ended + 1, 1);
    harness.open(ended + 1);
    harness.relay.callerGone(ended + 1);
    harness.relay.breakStream(ended + 2, { message: 'lost', code: 'worker_died', retryable: true });
    harness.open(ended + 2);
  }
  harness.sent = [];
  harness.say({ type: 'head', stream: 5000, head: sse });
  harness.say({ type: 'bytes', stream: 5000, offset: 0, data: new Uint8Array(10) });
  expect(streamsOf(harness, 'pause')).toEqual([]);
});
