import { expect, test } from 'vitest';
import type { Job } from '../../../src/protocol/index.ts';
import { logFailure } from '../../../src/worker/jobs/end-reasons.ts';
import { idsOf } from '../../../src/worker/run/running-job.ts';

const jobWith = (payload: unknown): Job => ({
  type: 'job',
  job_id: 'j',
  mode: 'transient',
  fence_token: 1,
  payload,
});

test.each([
  [{ headers: { 'x-request-id': 'mine' } }, { job_id: 'j', request_id: 'mine' }],
  [{ headers: { 'x-request-id': 'j' } }, { job_id: 'j' }],
  [{ headers: { 'x-request-id': 7 } }, { job_id: 'j' }],
  [{ headers: null }, { job_id: 'j' }],
  [null, { job_id: 'j' }],
])('a job is logged under its id and under what its caller calls it: %j', (payload, ids) => {
  expect(idsOf(jobWith(payload))).toEqual(ids);
});

test('the line of a failure has both', () => {
  const lines: unknown[] = [];
  const take = (fields: object, message: string) => lines.push([fields, message]);
  const log = { debug: take, info: take, warn: take, error: take };
  const failure = { code: 'engine_refused', retryable: false, error: 'too long' };
  const job = jobWith({ headers: { 'x-request-id': 'mine' } });
  logFailure(log, job, { type: 'job_error', job_id: 'j', fence_token: 1, ...failure });
  expect(lines).toEqual([
    [{ job_id: 'j', request_id: 'mine', code: 'engine_refused' }, 'job failed: too long'],
  ]);
});
