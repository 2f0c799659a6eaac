import { expect, it } from 'vitest';
import { findJob, insertJob } from '../../../src/queue/store/jobs-table.ts';
import { QueueHarness } from '../../support/queue-harness.ts';

it('answers a stored job as the table has it', () => {
  const { database } = new QueueHarness();
  const sql = { exec: (query: string, ...bindings: never[]) => database.prepare(query).all(...bindings) };
  const job = {
    id: 'job-1',
    job_type: 'chat_completion',
    config_id: 'cfg',
    priority: 2,
    max_attempts: 3,
    payload: '{}',
    created_at: 1000,
    deadline_at: 2000.5,
    tenant: 'someone',
    token_name: 'a-token',
    stream: 1,
    webhook: 'https://example.com/ends',
    trace: '{"traceparent":"x"}',
  } as const;
  const { job: inserted } = insertJob(sql as never, job);
  expect(findJob(sql as never, 'job-1')).toEqual(inserted);
  expect(insertJob(sql as never, { ...job, id: 'job-2' }).job.seq).toBe(inserted.seq + 1);
});
