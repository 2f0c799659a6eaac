import type { RequestRecord } from '../../src/protocol/index.ts';

/** A request that has ended, with as little as a test needs. */
export function ended(id: string, more: Partial<RequestRecord> = {}): RequestRecord {
  return {
    id,
    request_id: null,
    kind: 'live',
    submitted_at: 0,
    ended_at: 1000,
    config_id: 'cfg',
    model: 'tiny',
    route: '/v1/chat/completions',
    tenant: null,
    token_name: null,
    worker_id: 'w',
    attempts: 1,
    outcome: 'succeeded',
    error_code: null,
    error: null,
    tokens_in: 10,
    tokens_out: 20,
    cached_tokens: null,
    wait_ms: 0,
    first_token_ms: 100,
    total_ms: 1000,
    is_slow: false,
    stands_for: 1,
    ...more,
  };
}
