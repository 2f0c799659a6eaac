import { expect, it } from 'vitest';
import { Newest } from '../../../src/queue/state/recent-requests.ts';

it('keeps the newest entries, of which one that is set again is one', () => {
  const newest = new Newest<string, number>(2);
  newest.set('a', 1).set('b', 2).set('a', 3).set('c', 4);
  expect([...newest]).toEqual([
    ['a', 3],
    ['c', 4],
  ]);
});
