import { expect, it } from 'vitest';
import { Timer } from '../../../src/queue/object/timer.ts';

/** Timers on a clock that nobody sets, beside a wall clock that somebody does. */
class Machine {
  wallMs = 1_000_000;
  readonly fired: number[] = [];
  readonly #planned = new Set<{ inMs: number; run: () => void }>();
  readonly timer = new Timer((at) => this.fired.push(at), {
    now: () => this.wallMs,
    after: (inMs, run) => {
      const planned = { inMs, run };
      this.#planned.add(planned);
      return () => void this.#planned.delete(planned);
    },
  });

  pass(ms: number): void {
    this.wallMs += ms;
    for (const planned of this.#planned) {
      planned.inMs -= ms;
      if (planned.inMs > 0) continue;
      this.#planned.delete(planned);
      planned.run();
    }
  }
}

it('what is due first is done first, and nothing twice', () => {
  const machine = new Machine();
  machine.timer.arm(1_060_000);
  machine.timer.arm(1_005_000);
  machine.timer.arm(1_020_000);
  machine.pass(4999);
  expect(machine.fired).toEqual([]);
  machine.pass(1);
  expect(machine.fired).toEqual([1_005_000]);
  machine.pass(60_000);
  expect(machine.fired).toEqual([1_005_000]);
});

it('what is due waits for no timer of before the clock was set forward', () => {
  const machine = new Machine();
  machine.timer.arm(1_060_000);
  machine.wallMs += 3_600_000;
  machine.timer.arm(1_060_000);
  machine.pass(1);
  expect(machine.fired).toEqual([1_060_000]);
  machine.timer.arm(4_700_000);
  machine.wallMs += 3_600_000;
  // What it was set for is over meanwhile.
  machine.timer.arm(8_300_000);
  machine.pass(98_999);
  expect(machine.fired).toHaveLength(1);
  machine.pass(8_300_000 - machine.wallMs);
  expect(machine.fired).toEqual([1_060_000, 8_300_000]);
});

it('events that come all the time do not put off what is overdue', () => {
  const machine = new Machine();
  machine.timer.arm(1_060_000);
  machine.wallMs += 3_600_000;
  for (let event = 0; event < 10; event++) {
    machine.timer.arm(1_060_000);
    machine.pass(0.5);
  }
  expect(machine.fired[0]).toBe(1_060_000);
});
