import { expect, it } from 'vitest';
import { requestsOf } from '../../../bench/prefixes/loads.ts';
import { play } from '../../../bench/prefixes/world.ts';

/** A small form of `node bench/prefixes.ts`, which has the figures of docs/prefixes.md. */
const ENGINE = { cacheTokens: 300_000, prefillTokensPerMs: 12, msPerToken: 20 };
const fleet = { workers: 4, slots: 32, engine: ENGINE };
const one = {
  workers: 1,
  slots: 128,
  engine: { ...ENGINE, cacheTokens: 1_200_000, prefillTokensPerMs: 48 },
};

it.each(['conversations', 'documents'] as const)(
  '%s find nine tenths of what one worker would have',
  (load) => {
    const asked = requestsOf(load, 300, 12, 1);
    const spread = play(asked, fleet, true);
    expect(spread.hits).toBeGreaterThan(0.9 * play(asked, one, false).hits);
    expect(play(asked, fleet, false).hits).toBeLessThan(0.9 * spread.hits);
    expect(spread.busiest).toBeLessThan(0.4);
    // The queue's metrics: what engines told is what they had, and no more was supposed.
    expect(spread.seen).toBeCloseTo(spread.hits, 2);
    expect(spread.predicted).toBeGreaterThan(0.5 * spread.seen);
    expect(spread.predicted).toBeLessThan(1.05 * spread.seen);
  },
);

it('sends prompts that share a system prompt to all workers, and unique ones to the least loaded', () => {
  const shared = requestsOf('system prompt', 300, 12, 1);
  expect(play(shared, fleet, true).busiest).toBeLessThan(0.3);
  const unique = requestsOf('unique', 300, 16, 1);
  expect(play(unique, fleet, true).firstToken).toEqual(play(unique, fleet, false).firstToken);
});
