import { afterEach, describe, expect, it } from 'vitest';
import { type EndSignals, endSignals } from '../../../src/process/signals.ts';

let signals: EndSignals;
afterEach(() => signals.release());

/** Whether a promise has settled by now. */
async function settled(promise: Promise<unknown>): Promise<boolean> {
  const pending = Symbol('pending');
  return (await Promise.race([promise, Promise.resolve(pending)])) !== pending;
}

function listen() {
  const clock = { now: 0 };
  signals = endSignals(() => clock.now);
  const send = (signal: NodeJS.Signals, at: number) => {
    clock.now = at;
    process.emit(signal, signal);
  };
  return send;
}

describe('signals that end a process', () => {
  it('count as one when npm forwards what the terminal has delivered', async () => {
    const send = listen();
    send('SIGINT', 0);
    send('SIGINT', 299);
    expect(await signals.first).toBe('SIGINT');
    expect(await settled(signals.second)).toBe(false);
  });

  it('are two when the user insists', async () => {
    const send = listen();
    send('SIGINT', 0);
    send('SIGINT', 300);
    expect(await signals.second).toBe('SIGINT');
  });

  it('are two when they differ', async () => {
    const send = listen();
    send('SIGINT', 0);
    send('SIGTERM', 10);
    expect(await signals.second).toBe('SIGTERM');
  });

  it('do not count a SIGHUP that asks for settings to be read again while the terminal is there', async () => {
    let reloads = 0;
    signals = endSignals(undefined, () => {
      reloads += 1;
    });
    process.emit('SIGHUP', 'SIGHUP');
    process.emit('SIGHUP', 'SIGHUP');
    expect(reloads).toBe(2);
    expect(await settled(signals.first)).toBe(false);
    process.emit('SIGTERM', 'SIGTERM');
    expect(await signals.first).toBe('SIGTERM');
  });
});
