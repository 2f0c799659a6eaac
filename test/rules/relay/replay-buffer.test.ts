import { expect, it } from 'vitest';
import { bounds } from '../../../src/protocol/index.ts';
import { BEGINNING_DROPPED } from '../../../src/relay/calls.ts';
import type { Opening } from '../../../src/relay/stream-ports.ts';
import { Caller, RelayHarness, sse, text } from '../../support/relay-harness.ts';

const head = { type: 'head', stream: 7, head: { ...sse, replayed: true } } as const;
const bytes = (offset: number, data: string) =>
  ({ type: 'bytes', stream: 7, offset, data: text(data) }) as const;
const died = {
  type: 'broken',
  stream: 7,
  reason: { message: 'died', code: 'engine_died', retryable: true },
} as const;

/** Opens a replay buffer the way the object does. */
function read(
  bench: RelayHarness,
  reader = new Caller(),
): { reader: Caller; openings: Opening[]; stop(): void } {
  const openings: Opening[] = [];
  const stop = bench.relay.openReplay(7, (opening) => {
    openings.push(opening);
    if (opening.ok) bench.relay.replays.attach(7, reader);
  });
  return { reader, openings, stop };
}

it('two readers, one of them late, each get the whole answer', () => {
  const bench = new RelayHarness();
  const early = read(bench);
  bench.say(head, bytes(0, 'data: 1\n\n'));
  const late = read(bench);
  bench.say(bytes(9, 'data: 2\n\n'), { type: 'end', stream: 7, size: 18 });
  const last = read(bench);
  for (const { reader } of [early, late, last]) {
    expect(reader).toMatchObject({ received: 'data: 1\n\ndata: 2\n\n', ended: true, broken: null });
  }
  expect(bench.sent.at(-1)).toEqual({ type: 'taken', stream: 7, offset: 18 });
});

it('an answer that nobody reads is neither paused nor cancelled', () => {
  const bench = new RelayHarness();
  bench.say(head, bytes(0, 'x'.repeat(bounds.RELAY_BUFFER_BYTES + 1)));
  bench.advance(1);
  for (let second = 0; second < 60; second++) {
    bench.relay.onPing();
    bench.advance(1);
  }
  expect(bench.sent.filter(({ type }) => type !== 'taken')).toEqual([]);
  const { reader } = read(bench);
  expect(reader.received).toHaveLength(bounds.RELAY_BUFFER_BYTES + 1);
});

it('a reader that leaves, or reads slowly, changes nothing for the others', () => {
  const bench = new RelayHarness();
  const slow = new Caller();
  slow.keepsUp = false;
  read(bench, slow);
  const gone = read(bench);
  const stays = read(bench);
  bench.say(head, bytes(0, 'data: 1\n\n'));
  bench.relay.replays.leave(7, gone.reader);
  bench.say(bytes(9, 'data: 2\n\n'), { type: 'end', stream: 7, size: 18 });
  expect(stays.reader).toMatchObject({ received: 'data: 1\n\ndata: 2\n\n', ended: true });
  expect(gone.reader).toMatchObject({ received: 'data: 1\n\n', ended: false });
  expect(slow).toMatchObject({ received: 'data: 1\n\n', ended: false });
  bench.relay.replays.readerReads(7, slow);
  expect(slow.received).toBe('data: 1\n\ndata: 2\n\n');
  bench.relay.replays.readerReads(7, slow);
  expect(slow.ended).toBe(true);
  expect(bench.sent.map(({ type }) => type)).not.toContain('cancel');
});

it('beyond its bound the beginning is dropped, and who comes then is told', () => {
  const bench = new RelayHarness();
  const early = read(bench);
  bench.say(head);
  const piece = 'x'.repeat(1024 * 1024);
  const pieces = bounds.REPLAY_BUFFER_BYTES / piece.length + 1;
  for (let n = 0; n < pieces; n++) bench.say(bytes(n * piece.length, piece));
  expect(early.reader.received).toHaveLength(pieces * piece.length);
  expect(read(bench).openings).toMatchObject([{ ok: false, reason: { code: BEGINNING_DROPPED } }]);
});

it('a reader that falls behind what is kept is told, and the job goes on', () => {
  const bench = new RelayHarness();
  const slow = new Caller();
  slow.keepsUp = false;
  read(bench, slow);
  bench.say(head);
  const event = `data: ${'x'.repeat(1024 * 1024)}\n\n`;
  for (let n = 0; n < 7; n++) bench.say(bytes(n * event.length, event));
  bench.relay.replays.readerReads(7, slow);
  expect(slow.received).toBe(event);
  expect(slow).toMatchObject({ ended: false, mayAddEvent: true });
  expect(slow.broken).toMatch(/read too slowly/);
  expect(bench.sent.map(({ type }) => type)).not.toContain('cancel');
});

it('all replay buffers of a worker together are bounded', () => {
  const bench = new RelayHarness();
  const data = text('x'.repeat(1024 * 1024));
  const streams = Math.ceil(bounds.REPLAY_BUFFERS_BYTES / bounds.REPLAY_BUFFER_BYTES) + 1;
  for (let stream = 7; stream < 7 + streams; stream++) {
    bench.say({ ...head, stream });
    for (let n = 0; n < 4; n++) bench.say({ type: 'bytes', stream, offset: n * data.byteLength, data });
  }
  expect(read(bench).openings).toMatchObject([{ ok: false, reason: { code: BEGINNING_DROPPED } }]);
});

it('readers of an attempt that breaks end with the reason, and later ones are sent on to the next', () => {
  const bench = new RelayHarness();
  const { reader } = read(bench);
  bench.say(head, bytes(0, 'data: 1\n\n'), died);
  expect(reader).toMatchObject({ received: 'data: 1\n\n', broken: 'died', mayAddEvent: true });
  expect(read(bench).openings).toMatchObject([{ ok: false, reason: { code: 'engine_died' } }]);
});

it('an attempt that breaks before its head is told to readers before and after', () => {
  const bench = new RelayHarness();
  bench.say(died);
  expect(read(bench).openings).toMatchObject([{ ok: false }]);
  const other = new RelayHarness();
  const { openings } = read(other);
  other.say(died);
  expect(openings).toMatchObject([{ ok: false }]);
});

it('a relay that restarted gives no answer without its beginning', () => {
  const bench = new RelayHarness();
  const { openings } = read(bench);
  bench.say(bytes(9, 'data: 2\n\n'));
  expect(openings).toMatchObject([{ ok: false }]);
  expect(bench.sent.at(-1)).toMatchObject({ type: 'cancel', stream: 7 });
});

it('an answer goes on where it stood when the worker’s socket is back', () => {
  const bench = new RelayHarness();
  const { reader } = read(bench);
  bench.say(head, bytes(0, 'data: 1\n\n'));
  bench.sent = [];
  bench.connect();
  expect(bench.sent).toEqual([{ type: 'taken', stream: 7, offset: 9 }]);
  bench.say(bytes(5, ' 1\n\ndata: 2\n\n'), { type: 'end', stream: 7, size: 18 });
  expect(reader).toMatchObject({ received: 'data: 1\n\ndata: 2\n\n', ended: true });
});

it('a worker that is lost breaks its replay buffers, and what is over is forgotten', () => {
  const bench = new RelayHarness();
  const { reader, stop } = read(bench);
  bench.say(head, bytes(0, 'data: 1\n\n'));
  bench.relay.onSocketClosed(bench.socket);
  bench.advance(11);
  expect(reader.broken).toMatch(/did not come back/);
  bench.advance(11);
  // Its id is remembered a minute longer.
  bench.advance(61);
  expect(bench.relay.isBusy).toBe(false);
  stop();
});

it('a worker that comes after the grace begins a buffer that was waited for in vain', () => {
  const bench = new RelayHarness();
  const { openings } = read(bench);
  bench.relay.onSocketClosed(bench.socket);
  bench.advance(11);
  expect(openings).toMatchObject([{ ok: false, reason: { code: 'worker_died' } }]);
  bench.connect();
  bench.say(head, bytes(0, 'data: 1\n\n'));
  expect(read(bench).reader.received).toBe('data: 1\n\n');
});

it('a reader that leaves before anything came leaves nothing behind', () => {
  const bench = new RelayHarness();
  read(bench).stop();
  expect(bench.relay.isBusy).toBe(false);
});

it('what a worker sends late of a replay buffer that was given up begins no other', () => {
  for (const isRead of [true, false]) {
    const bench = new RelayHarness();
    const reading = isRead ? read(bench) : null;
    const reason = { message: 'lost', code: 'lease_expired', retryable: true } as const;
    bench.relay.breakStream(7, reason);
    reading?.stop();
    bench.advance(11);
    bench.say(head, bytes(0, 'data: 1\n\n'));
    expect(bench.sent.at(-1)).toEqual({ type: 'cancel', stream: 7, reason: 'superseded' });
    for (let second = 0; second < 120; second++) {
      bench.relay.onPing();
      bench.advance(1);
    }
    expect(bench.relay.isBusy).toBe(false);
  }
});

it('a reader that leaves after its replay buffer was forgotten leaves nothing behind', () => {
  const bench = new RelayHarness();
  const { stop } = read(bench);
  bench.relay.breakStream(7, died.reason);
  for (let second = 0; second < 120; second++) {
    bench.relay.onPing();
    bench.advance(1);
  }
  expect(bench.relay.isBusy).toBe(false);
  stop();
  expect(bench.relay.isBusy).toBe(false);
});

it('a reader that leaves late takes no other reader’s replay buffer with it', () => {
  const bench = new RelayHarness();
  const early = read(bench);
  bench.relay.breakStream(7, died.reason);
  bench.advance(11);
  const late = read(bench);
  early.stop();
  bench.relay.breakStream(7, died.reason);
  expect(late.openings).toMatchObject([{ ok: false, reason: { code: 'engine_died' } }]);
});

it('what is over is forgotten as soon when the clock was set back', () => {
  const bench = new RelayHarness();
  bench.say(head, bytes(0, 'data: 1\n\n'), died);
  bench.relay.breakStream(8, died.reason);
  bench.advance(1);
  bench.nowMs -= 3_600_000;
  for (let second = 0; second < 140; second++) {
    bench.relay.onPing();
    bench.advance(1);
  }
  expect(bench.relay.isBusy).toBe(false);
});

it('readers are kept alive with comments while the engine is silent', () => {
  const bench = new RelayHarness();
  const { reader } = read(bench);
  bench.say(head, bytes(0, 'data: 1\n\n'));
  bench.advance(3);
  expect(reader.received).toMatch(/^data: 1\n\n(: keep-alive\n\n){2,}$/);
  expect(read(bench).reader.received).toBe('data: 1\n\n');
});
