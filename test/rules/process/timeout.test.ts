import { expect, test } from 'vitest';
import { withTimeout } from '../../../src/process/clock.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

test('what ends in time gives its value or its error, and leaves no timer', async () => {
  const clock = new VirtualClock();
  expect(await withTimeout(clock, 1000, async () => 7)).toBe(7);
  await expect(withTimeout(clock, 1000, () => Promise.reject(new Error('no')))).rejects.toThrow('no');
  expect(clock.armed).toBe(0);
});

test('what takes too long is aborted and fails with the reason, even if it does not listen', async () => {
  const clock = new VirtualClock();
  let given: AbortSignal | undefined;
  const forever = (signal: AbortSignal) => {
    given = signal;
    return new Promise<never>(() => {});
  };
  const outcome = expect(withTimeout(clock, 1500, forever)).rejects.toThrow('no answer within 2 s');
  await clock.advance(1500);
  await outcome;
  expect(given?.reason).toMatchObject({ message: 'no answer within 2 s' });
});

test('the caller can end it before', async () => {
  const caller = new AbortController();
  const listening = (signal: AbortSignal) =>
    new Promise<never>((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
  const outcome = expect(
    withTimeout(new VirtualClock(), 1000, listening, { signal: caller.signal }),
  ).rejects.toThrow('enough');
  caller.abort(new Error('enough'));
  await outcome;
});
