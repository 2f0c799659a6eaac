import { describe, expect, it } from 'vitest';
import { SlidingWindow } from '../../../src/admission/windows.ts';

describe('a sliding window', () => {
  it('counts an amount for a minute, and up to a second longer', () => {
    const window = new SlidingWindow();
    window.add(1500, 5);
    expect([1500, 61_500, 61_999].map((now) => window.sum(now))).toEqual([5, 5, 5]);
    expect(window.sum(62_000)).toBe(0);
  });

  it('tells when it falls to an amount', () => {
    const window = new SlidingWindow();
    for (const now of [0, 10_000, 20_000]) window.add(now, 10);
    expect(window.fallsTo(30, 20_000)).toBe(20_000);
    expect(window.fallsTo(20, 20_000)).toBe(61_000);
    expect(window.fallsTo(5, 20_000)).toBe(81_000);
  });

  it('takes back no more than was added in that second', () => {
    const window = new SlidingWindow();
    window.add(0, 10);
    window.add(5000, 10);
    window.add(900, -4);
    expect(window.sum(5000)).toBe(16);
    window.add(5000, -15);
    expect(window.sum(5000)).toBe(6);
    window.add(3000, -5);
    expect(window.sum(60_999)).toBe(6);
    expect(window.sum(61_000)).toBe(0);
    window.add(0, -5);
    expect(window.sum(61_000)).toBe(0);
  });

  it('forgets what is added late by its own second', () => {
    const window = new SlidingWindow();
    for (const now of [20_000, 10_000, 10_500, 0]) window.add(now, 10);
    expect([60_999, 61_000, 71_000, 81_000].map((now) => window.sum(now))).toEqual([40, 30, 10, 0]);
  });

  it('is what it was in another life, and leaves nothing in the future', () => {
    const window = new SlidingWindow();
    window.add(100_000, 3);
    const slots = window.slots(100_000);
    expect(new SlidingWindow(slots, 100_500).sum(160_999)).toBe(3);
    const setBack = new SlidingWindow(slots, 40_000);
    expect([setBack.sum(100_999), setBack.sum(101_000)]).toEqual([3, 0]);
  });

  it('lets no 60 s have more than its sum, wherever they begin', () => {
    const most = 20;
    const window = new SlidingWindow();
    const added: [number, number][] = [];
    let state = 7;
    const random = () => {
      state = (state * 48_271) % 2_147_483_647;
      return state / 2_147_483_647;
    };
    for (let now = 0; now < 600_000; now += Math.floor(random() * 900)) {
      const amount = 1 + Math.floor(random() * 4);
      if (window.sum(now) + amount > most) continue;
      window.add(now, amount);
      added.push([now, amount]);
    }
    for (const [from] of added) {
      const within = added.filter(([at]) => at >= from && at < from + 60_000);
      expect(within.reduce((sum, [, amount]) => sum + amount, 0)).toBeLessThanOrEqual(most);
    }
    expect(added.length).toBeGreaterThan(50);
  });
});
