import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { until } from '../../../support/poll.ts';
import { Held } from './held.ts';

const HOUR_MS = 3_600_000;
const { now } = Date;

let held: Held;
let offsetMs = 0;

beforeEach(async () => {
  offsetMs = 0;
  vi.spyOn(Date, 'now').mockImplementation(() => now.call(Date) + offsetMs);
  held = await Held.make();
});
afterEach(async () => {
  await held.end();
  vi.restoreAllMocks();
});

describe('a clock that is set back', () => {
  it('has each object write what the next one has to know, and restart with the new time', async () => {
    const peer = await held.dial();
    const before = await held.run((object) => {
      object.keep('a');
      return object.host.now();
    });
    offsetMs = -HOUR_MS;
    await until(() => peer.closed, 'the object restarts');
    expect(peer.closed!.code).toBe(1012);
    expect(await held.stub().keeps!()).toEqual(['a', 'clock']);
    expect(await held.run((object) => object.host.now())).toBeLessThan(before);
    expect(held.made).toHaveLength(2);
  });

  it('does not go back within one life, and the machine’s time is told', async () => {
    await held.run((object) => {
      const before = object.host.now();
      offsetMs = -500;
      expect(object.host.now()).toBeGreaterThanOrEqual(before);
      expect(object.host.machineTime()).toBeLessThan(before);
    });
    offsetMs = 0;
    expect(held.made).toHaveLength(1);
  });

  it('makes the next object where its alarm is set, though nobody calls', async () => {
    await held.run((object) => object.host.alarm.set(object.host.now() + 2 * HOUR_MS));
    offsetMs = -HOUR_MS;
    await until(() => held.made.length === 2, 'the next object is made');
  });
});

describe('a clock that is set forward', () => {
  it('fires the alarms whose time has come', async () => {
    const at = await held.run((object) => {
      object.host.alarm.set(object.host.now() + HOUR_MS);
      return object.host.alarm.get();
    });
    offsetMs = HOUR_MS;
    await until(() => held.newest.alarms.length > 0, 'it has fired');
    expect(held.newest.alarms).toEqual([at]);
    expect(held.made).toHaveLength(1);
  });
});
