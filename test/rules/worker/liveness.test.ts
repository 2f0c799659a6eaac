import { expect, it } from 'vitest';
import { Liveness } from '../../../src/worker/session/reconnecting-socket.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const [PERIOD_MS, SILENCE_MS] = [15_000, 30_000];

function watched() {
  const clock = new VirtualClock();
  const seen = { pings: 0, dead: false };
  const liveness = new Liveness(
    clock,
    PERIOD_MS,
    SILENCE_MS,
    () => void seen.pings++,
    () => {
      seen.dead = true;
    },
  );
  return { clock, liveness, seen };
}

it('a peer that answers no ping is dead once the time for it is over', async () => {
  const { clock, seen } = watched();
  await clock.advance(PERIOD_MS + SILENCE_MS - 1);
  expect(seen.dead).toBe(false);
  await clock.advance(1);
  expect(seen.dead).toBe(true);
  expect(clock.armed).toBe(0);
});

it('a process that stood still reads what its peer said meanwhile before it calls it dead', async () => {
  const { clock, liveness, seen } = watched();
  await clock.advance(PERIOD_MS);
  expect(seen.pings).toBe(1);
  // The answer comes while the process is stopped. When it goes on, its timers come before its sockets.
  clock.standStill(10 * SILENCE_MS);
  await clock.advance(0);
  liveness.heard();
  await clock.advance(PERIOD_MS - 1);
  expect(seen.dead).toBe(false);
});

it('a peer that said nothing while the process stood still has half of the time left', async () => {
  const { clock, seen } = watched();
  await clock.advance(PERIOD_MS);
  clock.standStill(10 * SILENCE_MS);
  await clock.advance(SILENCE_MS / 2 - 1);
  expect(seen.dead).toBe(false);
  await clock.advance(1);
  expect(seen.dead).toBe(true);
});
