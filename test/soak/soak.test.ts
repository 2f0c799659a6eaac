import { describe, expect, it } from 'vitest';
import { Soak } from './run.ts';

describe('the road under fire', () => {
  it('loses no job and no line of a batch, settles none twice, blames none wrongly and leaves nothing behind', {
    timeout: 400_000,
  }, async () => {
    const report = await Soak.run({ jobs: 300, faults: 20, seed: 7, workers: 3, say: () => {} });
    expect(report.counts, `the output of every process is in ${report.logs}`).toEqual({
      lost: [],
      wrongAnswers: [],
      largeResultsWrong: [],
      streamsWrong: [],
      linesWrong: [],
      endpointWrong: [],
      hooksWrong: [],
      settledTwice: [],
      wronglyCharged: [],
      leftovers: [],
      processesLeft: [],
    });
    const figures = Object.fromEntries(report.figures);
    // 300 jobs, 30 lines of the batch, 30 of the endpoint; one whose submission was not answered may be there twice.
    expect(figures['rows in the jobs table']).toBeGreaterThanOrEqual(360);
    expect(figures.faults).toBe(20);
    expect(figures['large results of jobs']).toBeGreaterThan(0);
    expect(figures['… whose answer was streamed']).toBeGreaterThan(0);
    expect(figures['… answered whole']).toBeGreaterThan(0);
    expect(figures['… while jobs were in flight there']).toBeGreaterThan(0);
  });
});
