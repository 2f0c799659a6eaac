import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { JobSubmission, newJobId } from '../../../src/protocol/index.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

it('grows with the time, is a UUID of version 7, and is never the same twice', () => {
  const ids: string[] = [];
  for (const at of [0, 1, 1_700_000_000_000, 1_700_000_000_001, 2 ** 48 - 1]) {
    vi.setSystemTime(at);
    const [id, other] = [newJobId(), newJobId()];
    expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    expect(Number.parseInt(id.slice(0, 13).replace('-', ''), 16)).toBe(at);
    expect(other).not.toBe(id);
    expect(JobSubmission.shape.id.parse(id)).toBe(id);
    ids.push(id);
  }
  expect(ids.toSorted()).toEqual(ids);
});
