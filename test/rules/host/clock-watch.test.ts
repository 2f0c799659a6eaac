import { describe, expect, it } from 'vitest';
import { ClockWatch } from '../../../src/host/cloudflare/clock-watch.ts';

const HOUR_MS = 3_600_000;

/** A clock of an object, and the machine's. */
class Clocks {
  nowMs = Date.UTC(2026, 0, 1);
  /** Null: as the object's. */
  machineMs: number | null = null;
  readonly clock = new ClockWatch(
    () => this.nowMs,
    () => this.machineMs ?? this.nowMs,
  );
}

describe('a clock that is set back', () => {
  it('is noticed when it stands still behind the machine’s', () => {
    const clocks = new Clocks();
    const { clock } = clocks;
    expect([clock.standsStill(false), clock.standsStill(false), clock.standsStill(true)]).not.toContain(true);
    clocks.machineMs = clocks.nowMs - 500;
    expect([clock.standsStill(false), clock.standsStill(true)]).toEqual([false, false]);
    clocks.machineMs = clocks.nowMs - HOUR_MS;
    const looks = Array.from({ length: 10 }, () => clock.standsStill(false));
    expect(looks).toContain(true);
  });

  it('is noticed at the first event that is committed, however many came just before', () => {
    const clocks = new Clocks();
    const { clock } = clocks;
    for (let event = 0; event < 3; event++) clock.standsStill(false);
    clocks.machineMs = clocks.nowMs - HOUR_MS;
    expect([clock.standsStill(false), clock.standsStill(true)]).toEqual([false, true]);
    // Also where it has moved a little since the event before: others had read it until it was set back.
    clocks.nowMs += 5;
    expect(clock.standsStill(true)).toBe(true);
  });

  it('is noticed at the second event of an object that had none for a while', () => {
    const clocks = new Clocks();
    const { clock } = clocks;
    for (let event = 0; event < 3; event++) clock.standsStill(false);
    clocks.nowMs += 1000;
    clocks.machineMs = clocks.nowMs - HOUR_MS;
    expect([clock.standsStill(false), clock.standsStill(false)]).toEqual([false, true]);
  });
});
