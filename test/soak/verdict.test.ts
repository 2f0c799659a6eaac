import { describe, expect, it } from 'vitest';
import type { AttemptError, JobView } from '../../src/protocol/index.ts';
import type { Fault, FaultKind } from './faults.ts';
import { isExplained, wrongCharges } from './verdict.ts';

const NOON = Date.UTC(2026, 0, 1, 12);
const AFTER_MS = 20_000;

function fault(kind: FaultKind, worker: string | null, seconds: number, until = seconds): Fault {
  return { kind, worker, at: NOON + seconds * 1000, until: NOON + until * 1000, inFlight: 1 };
}

function charge(code: string, seconds: number, fence = 1): AttemptError {
  const at = new Date(NOON + seconds * 1000).toISOString();
  return { message: code, code, retryable: true, attempt: 1, fence_token: fence, worker_id: 'w1', at };
}

describe('a charged attempt', () => {
  it('is accounted for by a fault of its own worker that can cause it, soon after', () => {
    const killed = [fault('kill_worker', 'w1', 0, 2)];
    expect(isExplained(charge('worker_died', 5), killed, AFTER_MS)).toBe(true);
    expect(isExplained(charge('lease_expired', 5), killed, AFTER_MS)).toBe(true);
    expect(isExplained(charge('engine_error', 5), killed, AFTER_MS)).toBe(false);
    expect(isExplained(charge('worker_died', 30), killed, AFTER_MS)).toBe(false);
    expect(isExplained(charge('worker_died', -1), killed, AFTER_MS)).toBe(false);
    expect(isExplained(charge('worker_died', 5), [fault('kill_worker', 'w2', 0, 2)], AFTER_MS)).toBe(false);
  });

  it('is not accounted for by one cut, one drain or one restart of the queue, which cost nobody anything', () => {
    for (const [kind, worker] of [
      ['cut', 'w1'],
      ['drain', 'w1'],
      ['kill_queue', null],
    ] as const) {
      expect(isExplained(charge('lease_expired', 5), [fault(kind, worker, 0)], AFTER_MS)).toBe(false);
    }
    const two = [fault('cut', 'w1', 0), fault('kill_queue', null, 1)];
    expect(isExplained(charge('lease_expired', 5), two, AFTER_MS)).toBe(true);
  });

  it('is wrong when its fence was charged before, or when the count says more than the errors', () => {
    const killed = [fault('kill_worker', 'w1', 0, 2)];
    const view = (attempts: number, attempt_errors: AttemptError[]) =>
      ({ id: 'j', attempts, attempt_errors }) as JobView;
    const both = [charge('worker_died', 1, 1), charge('worker_died', 2, 2)];
    expect(wrongCharges(view(2, both), killed, AFTER_MS)).toEqual([]);
    expect(wrongCharges(view(3, both), killed, AFTER_MS)).toHaveLength(1);
    const twice = [charge('worker_died', 1, 1), charge('worker_died', 2, 1)];
    expect(wrongCharges(view(2, twice), killed, AFTER_MS)).toHaveLength(1);
    expect(wrongCharges(view(1, [charge('worker_died', 1)]), [], AFTER_MS)).toHaveLength(1);
  });
});
