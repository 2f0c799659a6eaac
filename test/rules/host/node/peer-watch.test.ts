import type { Duplex } from 'node:stream';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { PeerWatch } from '../../../../src/host/node/objects/peer-watch.ts';

const MIB = 1024 * 1024;
const MINUTE_MS = 60_000;

beforeEach(() => vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] }));
afterEach(() => vi.useRealTimers());

/** A connection with so many bytes on their way, and why it was given up. */
function watched() {
  const stream = { writableLength: 0 };
  const reasons: string[] = [];
  const watch = new PeerWatch(stream as Duplex, (why) => {
    reasons.push(why);
    watch.end();
  });
  const send = (bytes: number) => {
    stream.writableLength += bytes;
    watch.sent();
  };
  return { stream, reasons, send };
}

describe('a connection', () => {
  it('is given up when its peer has read nothing for minutes', () => {
    const { reasons, send } = watched();
    send(20 * MIB);
    vi.advanceTimersByTime(4 * MINUTE_MS);
    expect(reasons).toEqual([]);
    vi.advanceTimersByTime(2 * MINUTE_MS);
    expect(reasons).toEqual(['its peer has read nothing for 300 s']);
  });

  it('is kept while its peer reads, however slowly', () => {
    const { stream, reasons, send } = watched();
    send(20 * MIB);
    for (let minute = 0; minute < 15; minute++) {
      vi.advanceTimersByTime(MINUTE_MS);
      stream.writableLength -= MIB;
    }
    expect(reasons).toEqual([]);
  });

  it('is kept with little on its way, whatever its peer does', () => {
    const { reasons, send } = watched();
    send(MIB / 2);
    vi.advanceTimersByTime(60 * MINUTE_MS);
    expect(reasons).toEqual([]);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('is given up at once when more waits than the longest frames have', () => {
    const { reasons, send } = watched();
    send(1025 * MIB);
    expect(reasons).toHaveLength(1);
  });
});
