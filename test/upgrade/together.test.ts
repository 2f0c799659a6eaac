import { afterAll, afterEach, describe, expect, it } from 'vitest';
import type { LedgerView } from '../../src/protocol/index.ts';
import { stopAllProcesses } from '../support/processes.ts';
import { readyWorker, startQueue, tearDown } from '../support/road.ts';
import { Traffic } from './traffic.ts';
import { before, today, type Version } from './versions.ts';

/** Queues, workers and clients of two versions, for the minutes of an upgrade. */
afterEach(stopAllProcesses);
afterAll(tearDown);

const work = (version: Version, url: string, id: string) =>
  readyWorker(url, id, { engineArgs: '--inter-token-latency-ms 5', program: version.program });

async function expectJobs(url: string, { jobs, refused, broken }: Traffic): Promise<void> {
  expect(refused).toEqual([]);
  expect(broken).toEqual([]);
  for (const [id, { state }] of jobs) {
    expect({ id, state }).toEqual({ id, state: 'succeeded' });
    const { steps } = (await (await fetch(`${url}/api/jobs/${id}/ledger`)).json()) as LedgerView;
    expect(steps.filter(({ step }) => step === 'settled')).toHaveLength(1);
    expect(steps.filter(({ step }) => step === 'attempt_failed')).toEqual([]);
  }
}

describe.each([
  { queue: 'today', others: 'the version before', of: today, with: before },
  { queue: 'the version before', others: 'today', of: before, with: today },
])('a queue of $queue with workers and clients of $others', ({ of, with: other }) => {
  it('runs streams and stored jobs, also while a worker of the one drains beside one of the other', async () => {
    const { url } = await startQueue({ program: of.program });
    const first = await work(other, url, 'first');
    const traffic = new Traffic(url, other);
    await traffic.more(20);

    // Its streams go on at the other one, or are finished here.
    await work(of, url, 'second');
    await traffic.more(10);
    await first.process.stop();
    await traffic.more(10);
    await work(other, url, 'third');
    await traffic.more(10);
    await traffic.end();
    await expectJobs(url, traffic);
  });
});
