import { afterEach, beforeEach, expect, it } from 'vitest';
import { HeldLease, LEASE_MS } from '../../../../../src/host/node/journal/held-lease.ts';
import { JournalServer } from '../../../../support/memory-journal.ts';
import { until } from '../../../../support/poll.ts';

const time = { monotonic: 0, wall: 0 };
let ranOut: Error[];
let lease: HeldLease;

beforeEach(() => {
  Object.assign(time, { monotonic: 5000, wall: 1e12 });
  ranOut = [];
  lease = new HeldLease(new JournalServer().connect(), { epoch: 1, address: '' }, time.monotonic, {
    ranOut: (error) => ranOut.push(error),
    taken: () => {},
    now: () => time.monotonic,
    wallTime: () => time.wall,
    log: () => {},
  });
});

afterEach(() => lease.stop());

it('a lease runs out by the clock that stands still while the machine sleeps', () => {
  expect(lease.problem).toBeNull();
  time.monotonic += LEASE_MS;
  expect(lease.problem).not.toBeNull();
  expect(ranOut).toHaveLength(1);
});

it('a lease runs out on a machine that has slept, until it is renewed', async () => {
  time.monotonic += 1;
  time.wall += 3_600_000;
  expect(lease.problem).not.toBeNull();
  expect(ranOut).toHaveLength(1);
  await until(() => lease.problem === null, 'it is renewed');
  // A wall clock that is set back does not make it longer.
  time.wall -= 3_600_000;
  time.monotonic += LEASE_MS;
  expect(lease.problem).not.toBeNull();
});
