import { describe, expect, it } from 'vitest';
import { LEASE_MS } from '../../../../../src/host/node/journal/held-lease.ts';
import { LeaseWatch } from '../../../../../src/host/node/journal/lease-watch.ts';

describe('a follower that reads the lease', () => {
  it('takes over as soon as the lease has run out, also at its first look', () => {
    expect(new LeaseWatch().read(false, 10_000)).toBe(true);
    const watch = new LeaseWatch();
    expect(watch.read(true, 250)).toBe(false);
    expect(watch.read(true, 500)).toBe(false);
    expect(watch.read(false, 750)).toBe(true);
  });

  it('gives the owner time to renew it once the journal can be reached again', () => {
    const watch = new LeaseWatch();
    expect(watch.read(true, 250)).toBe(false);
    const back = 10_000;
    expect(watch.read(false, back)).toBe(false);
    for (let now = back; now < back + LEASE_MS; now += 250) expect(watch.read(false, now)).toBe(false);
    expect(watch.read(false, back + LEASE_MS)).toBe(true);
  });

  it('does so too after a look that failed, however soon it was', () => {
    const watch = new LeaseWatch();
    expect(watch.read(true, 250)).toBe(false);
    watch.failed();
    for (let now = 500; now < 500 + LEASE_MS; now += 250) expect(watch.read(false, now)).toBe(false);
    expect(watch.read(false, 500 + LEASE_MS)).toBe(true);
  });

  it('leaves the owner alone that has renewed it in that time', () => {
    const watch = new LeaseWatch();
    expect(watch.read(true, 250)).toBe(false);
    expect(watch.read(false, 10_000)).toBe(false);
    for (let now = 10_250; now < 30_000; now += 250) expect(watch.read(true, now)).toBe(false);
    expect(watch.read(false, 30_250)).toBe(true);
  });
});
