import { describe, expect, it } from 'vitest';
import { type Claimed, claimOf } from '../../../src/queue/attempts/claim.ts';
import type { Worker } from '../../../src/queue/state/worker.ts';

const worker = (worker_id: string) => ({ session: { worker_id } }) as Worker;
const job = (state: Claimed['state'], code?: string): Claimed => ({
  state,
  fence_token: 7,
  worker_id: 'w',
  error: code === undefined ? null : JSON.stringify({ code, message: 'it broke' }),
});
const claim = (of: Claimed | null, by = 'w', fence_token = 7) => claimOf(of, worker(by), { fence_token });

describe('a claim', () => {
  it.each([
    ['held', job('leased')],
    ['lapsed', job('pending')],
    ['settled_by_it', job('succeeded')],
    ['settled_by_it', job('failed', 'engine_refused')],
    ['stale', job('failed', 'lease_expired')],
    ['stale', job('failed', 'worker_died')],
    ['stale', job('cancelled', 'cancelled')],
    ['stale', job('expired', 'deadline')],
    ['unknown', null],
  ] as const)('is %s by the job’s state', (verdict, of) => {
    expect(claim(of)).toBe(verdict);
  });

  it('is stale with another token, of another worker, and with the token of a job nobody was given', () => {
    expect(claim(job('leased'), 'w', 6)).toBe('stale');
    expect(claim(job('leased'), 'thief')).toBe('stale');
    expect(claim({ ...job('pending'), fence_token: 0, worker_id: null }, 'w', 0)).toBe('stale');
    expect(claim({ ...job('pending'), fence_token: 0 }, 'w', 0)).toBe('stale');
  });
});
