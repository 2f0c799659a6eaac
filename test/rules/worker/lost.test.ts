import { describe, expect, it } from 'vitest';
import { STREAM_JOB, WorkerBench } from '../../support/worker-fakes.ts';

/** What the simulation found: a worker and a caller that would have waited for each other for ever. */

describe('a worker that let a lease run out', () => {
  it('says that it is here, since the queue gives it nothing before', async () => {
    const bench = await new WorkerBench().ready();
    await bench.push();
    bench.queue.push({ type: 'job_revoked', job_id: 'j1', reason: 'lease_lost' });
    expect(bench.queue.frames.at(-1)).toEqual({ type: 'resume' });
  });

  it('does not offer slots while it takes no jobs', async () => {
    const bench = await new WorkerBench().ready();
    await bench.push();
    bench.worker.engineUnhealthy('gone');
    bench.queue.push({ type: 'job_revoked', job_id: 'j1', reason: 'lease_lost' });
    expect(bench.queue.framesOf('resume')).toEqual([]);
  });
});

describe('a stream of an earlier process that somebody still waits for', () => {
  it('is broken, so that its request can be tried elsewhere', async () => {
    const bench = await new WorkerBench().ready();
    bench.relay.pushRecords({ type: 'taken', stream: 41, offset: 0 });
    await bench.clock.advance(6000);
    expect(bench.relay.records).toMatchObject([
      { type: 'broken', stream: 41, reason: { code: 'worker_died', retryable: true } },
    ]);
  });

  it('is left alone when its job was only slower than the word of the relay', async () => {
    const bench = await new WorkerBench().ready();
    bench.relay.pushRecords({ type: 'taken', stream: STREAM_JOB.stream_id, offset: 0 });
    await bench.push(STREAM_JOB);
    await bench.clock.advance(6000);
    expect(bench.relay.records).toEqual([]);
  });
});

describe('a request that the queue has forgotten', () => {
  it('is broken for its caller when the worker hears of it', async () => {
    const bench = await new WorkerBench().ready();
    await bench.push(STREAM_JOB);
    bench.engine.last.head(200, 'text/event-stream').write('data: 1\n\n');
    await bench.clock.advance(0);
    bench.queue.push({ type: 'job_revoked', job_id: 'j1', reason: 'lease_lost' });
    await bench.clock.advance(0);
    expect(bench.engine.last.isAborted).toBe(true);
    expect(bench.relay.records.at(-1)).toMatchObject({ type: 'broken', reason: { code: 'lease_expired' } });
  });
});
