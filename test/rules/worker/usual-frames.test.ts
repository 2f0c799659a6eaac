import { expect, test } from 'vitest';
import { isUsual, LenientFrame } from '../../../src/worker/session/frames.ts';

const JOB = {
  type: 'job',
  job_id: 'j1',
  mode: 'transient',
  config_id: 'config',
  fence_token: 7,
  job_type: 'engine_request',
  attempt: 1,
  deadline_ms: 3000.5,
  lease_seconds: 30,
  trace: { queued_ms: 0, attempts_left: 2 },
  stream_id: 0xffff_ffff,
  account: 'a',
  payload_url: 'https://queue/files/1',
  result_upload_url: 'https://queue/files/2',
  payload: { path: '/v1/chat/completions', body: '{}' },
};
const ACK = { type: 'ack', job_id: 'j1', fence_token: 7, outcome: 'accepted' };

/** Values that JSON can hold, each of which some member refuses. */
const VALUES = [
  null,
  true,
  '',
  'x',
  'persisted',
  'stale',
  'x'.repeat(5000),
  0,
  -0,
  -1,
  1,
  0.5,
  2 ** 32,
  2 ** 53,
  Number.POSITIVE_INFINITY,
  [],
  {},
  { queued_ms: -1 },
  { queued_ms: 1.5, attempts_left: 1.5 },
  { traceparent: 'x' },
];

/** Frames that differ from a usual one in a member: left out, added, or with each of the values. */
function* variants(frame: Record<string, unknown>): Generator<Record<string, unknown>> {
  yield frame;
  for (const name of [...Object.keys(frame), 'partial', 'priority', 'constructor', 'reason']) {
    const { [name]: _, ...rest } = frame;
    yield rest;
    for (const value of VALUES) yield { ...rest, [name]: value };
  }
}

test.each([
  ['job', JOB],
  ['ack', ACK],
])('what passes for a usual %s is what the schema gives', (_, usual) => {
  let passed = 0;
  for (const frame of variants(usual)) {
    if (!isUsual(frame)) continue;
    passed += 1;
    expect(LenientFrame.safeParse(frame)).toEqual({ success: true, data: frame });
  }
  expect(isUsual(usual)).toBe(true);
  expect(passed).toBeGreaterThan(Object.keys(usual).length);
});

test.each([[null], ['job'], [[JOB]], [{ type: 'job' }], [{ ...JOB, type: 'registered' }]])(
  '%j is left to the schema',
  (data) => {
    expect(isUsual(data)).toBe(false);
  },
);
