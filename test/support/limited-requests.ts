import type { Limits, LimitView } from '../../src/protocol/index.ts';
import type { SubmitJob, WaitingRequest } from '../../src/queue/rpc.ts';
import type { FakeConnection, QueueHarness } from './queue-harness.ts';

/** What tests of limits and budgets share: requests of the token "a", what workers tell of them, and what is used. */

/** A request that may cost 10 tokens and does not wait for its limits. */
export function limited(limits: Limits | null, more: Partial<WaitingRequest> = {}): Partial<WaitingRequest> {
  return { ...stored(limits), waits_for_start: true, ...more };
}

/** Makes a request whose caller waits for its limits, up to 5 minutes. */
export function waits(limits: Limits, more: Partial<WaitingRequest> = {}): Partial<WaitingRequest> {
  return limited(limits, { waits_for_start: false, wait_for_slot_ms: 300_000, ...more });
}

/** A stored job that may cost 10 tokens. */
export function stored(limits: Limits | null, more: Partial<SubmitJob> = {}): Partial<SubmitJob> {
  return { tenant: 'a', token_name: 'a', limits, cost: { tokens: 10 }, ...more };
}

/** A worker answers what it was given last. @param tokens of its answer */
export function settle(queue: QueueHarness, worker: FakeConnection, tokens = 10): void {
  const { job_id, fence_token, account } = worker.lastJob();
  const usage = { prompt_tokens: 0, completion_tokens: tokens, model: 'tiny' };
  queue.say(worker, {
    type: 'job_result',
    job_id,
    fence_token,
    account,
    result: { http_status: 200 },
    usage,
  });
}

/** A worker tells how many tokens of each attempt have come so far. */
export function come(
  queue: QueueHarness,
  worker: FakeConnection,
  ...generated: [fence: number, tokens: number][]
): void {
  queue.say(worker, {
    type: 'load',
    running: 1,
    waiting: 0,
    kv_cache_usage: 0,
    slots_free: 9,
    generated,
  });
}

/** Returns the usage of the only token with limits. */
export function standing(queue: QueueHarness): LimitView {
  return queue.queue.read('limits')[0]!;
}
