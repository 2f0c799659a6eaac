import { describe, expect, it } from 'vitest';
import type { RequestRecord } from '../../../src/protocol/index.ts';
import { ORDINARY_A_WINDOW, Sampler, WINDOW_MS } from '../../../src/queue/projections/request-records.ts';
import { type FakeConnection, QueueHarness } from '../../support/queue-harness.ts';

const ended = (queue: QueueHarness): RequestRecord[] => queue.queue.takeEnded();

function say(queue: QueueHarness, worker: FakeConnection, type: string, more: object = {}): void {
  const { job_id, fence_token } = worker.lastJob();
  queue.say(worker, { type, job_id, fence_token, ...more });
}

describe('a request that has ended', () => {
  it('is told with its times, tokens and ids, and without what was said', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    queue.request({ job_id: 'r-2', route: '/v1/chat/completions', request_id: 'mine', token_name: 'app' });
    queue.nowMs += 1000;
    const usage = { prompt_tokens: 7, completion_tokens: 5, cached_tokens: 3, model: 'tiny' };
    expect(ended(queue)).toEqual([]);
    say(queue, worker, 'job_result', { result: {}, usage, timing: { first_token_ms: 200 } });
    const records = ended(queue);
    expect(records).toEqual([
      {
        id: 'r-2',
        request_id: 'mine',
        kind: 'live',
        submitted_at: queue.nowMs - 1000,
        ended_at: queue.nowMs,
        config_id: 'cfg',
        model: 'tiny',
        route: '/v1/chat/completions',
        tenant: null,
        token_name: 'app',
        worker_id: 'w',
        attempts: 1,
        outcome: 'succeeded',
        error_code: null,
        error: null,
        tokens_in: 7,
        tokens_out: 5,
        cached_tokens: 3,
        wait_ms: 0,
        first_token_ms: 200,
        total_ms: 1000,
        is_slow: false,
        stands_for: 1,
      },
    ]);
    expect(JSON.stringify(records)).not.toContain('messages');
  });

  it('that was moved had its first token when its caller had, and so do the counts', () => {
    const queue = new QueueHarness();
    const first = queue.worker('first');
    queue.request({ job_id: 'a' });
    queue.nowMs += 9000;
    say(queue, first, 'job_error', { error: 'gone', code: 'engine_died', retryable: true });
    queue.drop(first);
    const other = queue.worker('other');
    const moved = { worker_id: 'first', tokens: 4, kept: 14, why: 'the engine died', moves: 1, failures: 1 };
    const times = { given_ms_ago: 9000, first_token_ms_ago: 8500, newest_first_token_ms_ago: 8500 };
    queue.request({ job_id: 'a', moved: { ...moved, ...times } });
    queue.nowMs += 1000;
    say(queue, other, 'job_result', { result: {}, timing: { first_token_ms: 300 } });
    expect(ended(queue)).toMatchObject([
      { id: 'a', wait_ms: 0, first_token_ms: 500, total_ms: 10_000, is_slow: false },
    ]);
    expect(queue.queue.read('metrics').pools[0]?.counts.live_first_token.sum).toBe(0.5);
  });

  it('says why it failed, and after how many attempts', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    queue.job({ id: 'j', max_attempts: 2 });
    for (let attempt = 0; attempt < 2; attempt++) {
      say(queue, worker, 'job_error', { error: 'CUDA out of memory', code: 'engine_died', retryable: true });
      queue.advance(3);
    }
    expect(ended(queue)).toMatchObject([
      {
        id: 'j',
        kind: 'stored',
        route: 'chat_completion',
        outcome: 'failed',
        attempts: 2,
        error_code: 'engine_died',
        error: 'CUDA out of memory',
      },
    ]);
  });

  it('that found no worker in time was rejected, and was slow', () => {
    const queue = new QueueHarness();
    queue.worker('w');
    queue.request({ job_id: 'runs' });
    queue.request({ job_id: 'waits', wait_for_slot_ms: 5000 });
    queue.advance(6);
    expect(ended(queue)).toMatchObject([
      {
        id: 'waits',
        outcome: 'rejected',
        error_code: 'no_slot',
        worker_id: null,
        attempts: 0,
        wait_ms: 5000,
        is_slow: true,
      },
    ]);
  });

  it('that its gateway asks for again is told once, from its first submission', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    queue.request({ job_id: 'r' });
    say(queue, worker, 'job_error', { error: 'gone', retryable: true });
    queue.advance(1);
    expect(ended(queue)).toEqual([]);
    queue.request({ job_id: 'r', earlier: { attempts: 1, fence_token: 1, elapsed_ms: 1000 } });
    say(queue, worker, 'job_result', { result: {} });
    expect(ended(queue)).toMatchObject([{ id: 'r', outcome: 'succeeded', attempts: 2, total_ms: 1000 }]);
  });

  it('that its gateway gave up after a failure is told as failed', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    queue.request({ job_id: 'r' });
    say(queue, worker, 'job_error', { error: 'gone', code: 'engine_died', retryable: true });
    queue.advance(6);
    expect(ended(queue)).toMatchObject([
      { id: 'r', outcome: 'failed', error_code: 'engine_died', worker_id: 'w' },
    ]);
  });

  it('is a failure where its caller got the engine’s error', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    queue.request({ job_id: 'r' });
    say(queue, worker, 'job_result', { result: { http_status: 400 } });
    expect(ended(queue)).toMatchObject([{ outcome: 'failed', error_code: 'http_400' }]);
  });
});

describe('sampling', () => {
  /** @returns ids that are kept, with how many each stands for */
  function kept(sampler: Sampler, count: number, at: number): Map<string, number> {
    const ids = Array.from({ length: count }, (_, n) => `request-${n}`);
    return new Map(ids.map((id): [string, number] => [id, sampler.keep(id, at)]).filter(([, n]) => n > 0));
  }

  it('keeps all of a quiet queue', () => {
    const sampler = new Sampler(ORDINARY_A_WINDOW);
    for (let window = 0; window < 3; window++) {
      const all = kept(sampler, ORDINARY_A_WINDOW, window * WINDOW_MS);
      expect([all.size, new Set(all.values())]).toEqual([ORDINARY_A_WINDOW, new Set([1])]);
    }
  });

  it('keeps about as many of a busy one, which stand for all, and the same at the same rate', () => {
    const sampler = new Sampler(ORDINARY_A_WINDOW);
    kept(sampler, 20_000, 0);
    const second = kept(sampler, 20_000, WINDOW_MS);
    const third = kept(sampler, 20_000, 2 * WINDOW_MS);
    expect([...third.keys()]).toEqual([...second.keys()]);
    expect(third.size).toBeGreaterThan(ORDINARY_A_WINDOW / 3);
    expect(third.size).toBeLessThan(ORDINARY_A_WINDOW * 1.3);
    const stoodFor = [...third.values()].reduce((sum, n) => sum + n, 0);
    expect(stoodFor / 20_000).toBeGreaterThan(0.8);
    expect(stoodFor / 20_000).toBeLessThan(1.2);
  });

  it('keeps at a lower rate what it keeps at a higher one', () => {
    const ids = (rate: number) => {
      const sampler = new Sampler(ORDINARY_A_WINDOW);
      kept(sampler, rate, 0);
      return new Set(kept(sampler, rate, WINDOW_MS).keys());
    };
    const [busy, busier] = [ids(4000), ids(16_000)];
    const few = [...busier].filter((id) => Number(id.slice(8)) < 4000);
    expect(few.length).toBeGreaterThan(10);
    expect(few.every((id) => busy.has(id))).toBe(true);
  });

  it('keeps failures and slow ones of a busy queue', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w', { capacity: 1 });
    for (let n = 0; n < ORDINARY_A_WINDOW * 4; n++) {
      queue.request({ job_id: `ok-${n}` });
      say(queue, worker, 'job_result', { result: {} });
    }
    queue.request({ job_id: 'bad' });
    say(queue, worker, 'job_error', { error: 'no', retryable: false });
    queue.request({ job_id: 'slow' });
    queue.nowMs += 3000;
    say(queue, worker, 'job_result', { result: {}, timing: { first_token_ms: 2500 } });
    const records = ended(queue);
    expect(records.length).toBeLessThan(ORDINARY_A_WINDOW * 2.5);
    expect(records.slice(-2)).toMatchObject([
      { id: 'bad', outcome: 'failed', stands_for: 1 },
      { id: 'slow', is_slow: true, stands_for: 1 },
    ]);
  });
});
