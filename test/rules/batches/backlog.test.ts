import { describe, expect, it } from 'vitest';
import { backlog } from '../../../src/batches/batches.ts';
import { forgetLines, moveLines, nextLines, saveBatch } from '../../../src/batches/store.ts';

import { batchTables, HOUR_MS, NOW, runningBatch } from '../../support/batch-harness.ts';

describe('what batches have still to run', () => {
  it('is told by model and by the end of its window, with what of it the queue has', () => {
    const sql = batchTables();
    const day = NOW + 24 * HOUR_MS;
    const one = runningBatch(sql, 'batch_a', ['m', 'm', 'n', 'm'], { expires_at: day });
    runningBatch(sql, 'batch_b', ['m'], { expires_at: day + 1000 });
    runningBatch(sql, 'batch_c', ['', 'm'], { expires_at: NOW + HOUR_MS });
    expect(moveLines(sql, one.seq, nextLines(sql, one.seq, 'm', 2), 'submitted')).toHaveLength(2);
    expect(backlog(sql)).toEqual([
      { model: null, lines: 1, in_queue: 0, window_ends_at: NOW + HOUR_MS },
      { model: 'm', lines: 1, in_queue: 0, window_ends_at: NOW + HOUR_MS },
      { model: 'm', lines: 4, in_queue: 2, window_ends_at: day },
      { model: 'n', lines: 1, in_queue: 0, window_ends_at: day },
    ]);
  });

  it('counts each line once, however often it is said to be done or given back', () => {
    const sql = batchTables();
    const { seq } = runningBatch(sql, 'batch_a', ['m', 'm', 'm']);
    const lines = nextLines(sql, seq, 'm', 2);
    moveLines(sql, seq, lines, 'submitted');
    expect(moveLines(sql, seq, lines, 'submitted')).toEqual([]);
    expect(moveLines(sql, seq, [lines[0]!], 'done')).toHaveLength(1);
    expect(moveLines(sql, seq, lines, 'done')).toEqual([lines[1]]);
    expect(moveLines(sql, seq, lines, 'waiting')).toEqual([]);
    expect(backlog(sql)).toMatchObject([{ lines: 1, in_queue: 0 }]);
  });

  it('is nothing of a batch that is cancelled, or that has ended', () => {
    const sql = batchTables();
    const cancelled = runningBatch(sql, 'batch_a', ['m']);
    cancelled.batch.status = 'cancelling';
    saveBatch(sql, cancelled);
    const failed = runningBatch(sql, 'batch_b', ['m']);
    forgetLines(sql, failed.seq);
    expect(backlog(sql)).toEqual([]);
  });
});
