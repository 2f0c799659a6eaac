import { expect, it } from 'vitest';
import type { PlatformAnswer } from '../../../src/worker/runpod/platform.ts';
import { Polling } from '../../../src/worker/runpod/polling.ts';
import { settled, VirtualClock } from '../../support/virtual-clock.ts';

/** How often the platform is asked, on virtual time. */
function polling(answers: (asked: number) => number | null | 'job', heldMs = 0) {
  const clock = new VirtualClock();
  const start = clock.now();
  const askedAtMs: number[] = [];
  const received: unknown[] = [];
  const log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
  const loop = new Polling({
    ...{ clock, log, random: () => 0, idlePauseMs: 0, says: { begins: '', ends: '' } },
    ask: async (signal) => {
      askedAtMs.push(clock.now() - start);
      const answer = answers(askedAtMs.length);
      await new Promise<void>((resolve) => {
        clock.setTimeout(resolve, heldMs);
        signal.addEventListener('abort', () => resolve());
      });
      if (signal.aborted) return { status: null, body: undefined, problem: 'aborted' };
      return answer === 'job' ? answerOf(200, ['job']) : answerOf(answer);
    },
    received: (body) => {
      if (body === undefined) return false;
      received.push(body);
      return true;
    },
  });
  loop.start();
  return { clock, loop, askedAtMs, received };
}

function answerOf(status: number | null, body?: unknown): PlatformAnswer {
  return { status, body, problem: `HTTP ${status}` };
}

it('asks again at once after jobs, so that 24 take no longer than they run', async () => {
  const { clock, received } = polling((asked) => (asked <= 24 ? 'job' : 204), 20);
  await clock.advance(24 * 20);
  expect(received).toHaveLength(24);
});

it('asks again at once after a poll that was held, and is no busy loop where none is', async () => {
  const held = polling(() => 204, 25_000);
  await held.clock.advance(50_000);
  expect(held.askedAtMs).toEqual([0, 25_000, 50_000]);
  const quick = polling(() => 204);
  await quick.clock.advance(10_000);
  expect(quick.askedAtMs.length).toBeLessThan(20);
});

it.each([
  [400, [0, 1000, 2000, 3000]],
  [429, [0, 5000, 10_000, 15_000]],
  [401, [0, 1000, 3000, 7000, 15_000]],
  [500, [0, 1000, 3000, 7000, 15_000]],
  [null, [0, 1000, 3000, 7000, 15_000]],
] as const)('after %s it asks at %j', async (status, times) => {
  const { clock, askedAtMs } = polling(() => status);
  await clock.advance(15_000);
  expect(askedAtMs.slice(0, times.length)).toEqual(times);
});

it('waits no longer than 30 s after errors, and begins anew once one is answered', async () => {
  const { clock, askedAtMs } = polling((asked) => (asked === 10 ? 204 : 500));
  await clock.advance(600_000);
  const pauses = askedAtMs.slice(1).map((at, index) => at - askedAtMs[index]!);
  expect(Math.max(...pauses)).toBe(30_000);
  expect(pauses[10]).toBe(1000);
});

it('takes what comes while it stops, and waits no longer than it is given', async () => {
  const late = polling(() => 'job', 200);
  await settled();
  const stopped = late.loop.stop(300);
  await late.clock.advance(300);
  await stopped;
  expect(late.received).toHaveLength(1);
  expect(late.askedAtMs).toHaveLength(1);

  const idle = polling(() => 204, 25_000);
  await settled();
  const ended = idle.loop.stop(300);
  await idle.clock.advance(300);
  await ended;
  expect(idle.askedAtMs).toHaveLength(1);
});
