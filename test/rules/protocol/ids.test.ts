import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { behindPlace, type IdKind, idOf, placeOf, tagOf } from '../../../src/protocol/ids.ts';
import { JobSubmission, lineJobId, timeOrderedId } from '../../../src/protocol/index.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const KINDS: Record<IdKind, RegExp> = {
  job: /^job_1\w{4}[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/,
  request: /^req_1\w{4}[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/,
  runpod: /^1\w{4}[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}-u1$/,
  runpod_sync: /^sync-1\w{4}[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}-u1$/,
  batch: /^batch_1[\dA-Za-z]{28}$/,
  file: /^file-1[\dA-Za-z]{28}$/,
  response: /^resp_1[\dA-Za-z]{28}$/,
  conversation: /^conv_1[\dA-Za-z]{28}$/,
};

describe.each(Object.entries(KINDS) as [IdKind, RegExp][])('an id of a %s', (kind, form) => {
  it('says its queue and the generation of the layout, and is never the same twice', () => {
    const id = idOf(kind, 'default');
    expect(id).toMatch(form);
    expect(placeOf(id)).toEqual({ generation: 1, tag: tagOf('default') });
    expect(placeOf(idOf(kind, 'team-a'))?.tag).toBe(tagOf('team-a'));
    expect(idOf(kind, 'default')).not.toBe(id);
    expect(id.endsWith(behindPlace(id))).toBe(true);
    expect(behindPlace(id)).not.toContain(tagOf('default'));
    expect(JobSubmission.shape.id.parse(id)).toBe(id);
  });
});

it('the job of a batch’s line is where its batch is', () => {
  const id = lineJobId(idOf('batch', 'default'), 17);
  expect(placeOf(id)).toEqual({ generation: 1, tag: tagOf('default') });
  expect(behindPlace(id)).toMatch(/^[\dA-Za-z]{24}\.17$/);
});

it('a queue’s tag is the same for ever', () => {
  expect(['default', 'team-a', 'équipe', ''].map(tagOf)).toEqual(['RjCC', 'GcoA', '24dj', 'cmNW']);
});

it.each([
  timeOrderedId(),
  crypto.randomUUID(),
  `${timeOrderedId()}-u1`,
  `sync-${timeOrderedId()}-u1`,
  `batch_${'a'.repeat(24)}`,
  `batch_${'a'.repeat(24)}.3`,
  `file-${'Z'.repeat(24)}`,
  `resp_${'0'.repeat(32)}`,
  `conv_${'f'.repeat(32)}`,
  'report-17',
  'job_1',
  '',
])('%j, older or chosen by a caller, has no place and is whole behind it', (id) => {
  expect(placeOf(id)).toBeNull();
  expect(behindPlace(id)).toBe(id);
});

it('ids of jobs grow with the time', () => {
  const ids: string[] = [];
  for (const at of [0, 1, 1_700_000_000_000, 1_700_000_000_001, 2 ** 48 - 1]) {
    vi.setSystemTime(at);
    const [id, bare, other] = [idOf('job', 'default'), timeOrderedId(), timeOrderedId()];
    // A UUID of version 7.
    expect(bare).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    expect(Number.parseInt(bare.slice(0, 13).replace('-', ''), 16)).toBe(at);
    expect(other).not.toBe(bare);
    ids.push(id);
  }
  expect(ids.toSorted()).toEqual(ids);
});
