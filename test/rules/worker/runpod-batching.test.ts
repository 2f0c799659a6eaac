import { expect, test } from 'vitest';
import {
  BatchCounter,
  type Batching,
  type BatchingFields,
  batchingOf,
  RUNPOD_BATCHING,
} from '../../../src/worker/run/runpod-batching.ts';

/** The sizes of the batches that so many single events make, the last as it is. */
function sizes(batching: Batching, events: number): number[] {
  const counter = new BatchCounter(batching);
  const all: number[] = [];
  let held = 0;
  for (let event = 0; event < events; event++) {
    held += 1;
    if (!counter.add()) continue;
    all.push(held);
    held = 0;
  }
  return held > 0 ? [...all, held] : all;
}

const of = (fields: BatchingFields) => batchingOf(fields, RUNPOD_BATCHING);

test('batches grow from the smallest by the factor to the largest, as RunPod’s do', () => {
  expect(sizes(RUNPOD_BATCHING, 200)).toEqual([1, 3, 9, 27, 50, 50, 50, 10]);
  expect(sizes(of({ max_batch_size: 16, min_batch_size: 4, batch_size_growth_factor: 2 }), 50)).toEqual([
    4, 8, 16, 16, 6,
  ]);
  // Half events do not exist: a batch is sent with the event that reaches its size.
  expect(sizes(of({ max_batch_size: 5, batch_size_growth_factor: 1.5 }), 16)).toEqual([1, 2, 3, 4, 5, 1]);
});

test('batches that cannot grow all have the largest size', () => {
  expect(sizes(of({ batch_size_growth_factor: 1, max_batch_size: 4 }), 9)).toEqual([4, 4, 1]);
  expect(sizes(of({ min_batch_size: 30, max_batch_size: 10 }), 25)).toEqual([10, 10, 5]);
});

test('a request’s own fields come before the defaults, nothing and 0 leave them', () => {
  expect(of({})).toEqual(RUNPOD_BATCHING);
  expect(of({ max_batch_size: 0, min_batch_size: null })).toEqual(RUNPOD_BATCHING);
  expect(of({ batch_size: 30 })).toEqual({ ...RUNPOD_BATCHING, maxSize: 30 });
  expect(of({ batch_size: 30, max_batch_size: 7 }).maxSize).toBe(7);
});
