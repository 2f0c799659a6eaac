import { describe, expect, it } from 'vitest';
import { ORPHANED, type StoredJob } from '../../../src/queue/job.ts';
import type { SettledJobs } from '../../../src/queue/rpc.ts';
import { type Core, createCore } from '../../../src/queue/state/state.ts';
import { findJob } from '../../../src/queue/store/jobs-table.ts';
import { completeSettings } from '../../../src/settings/queue-settings.ts';
import { type FakeConnection, QueueHarness } from '../../support/queue-harness.ts';

const JOB = {
  job_type: 'chat_completion',
  config_id: 'cfg',
  priority: 2,
  max_attempts: 3,
  payload: '{}',
  created_at: 1000,
  deadline_at: 60_000.5,
  tenant: 'someone',
  token_name: 'a-token',
  stream: 1,
  extras: {
    weight: 2,
    webhook: 'https://example.com/ends',
    trace: { traceparent: 'x' },
    prefix: { session: 1, bytes: 0, hashes: [] },
  },
  model: 'an-adapter',
  payload_file: null,
} as const;
const LEASE = { fence_token: 7, worker_id: 'w', leased_at: 2000, lease_expires_at: 32_000, file_key: 'k' };
const ATTEMPTS = { attempts: 1, attempt_errors: '[{"attempt":1}]' };
const ERROR = { message: 'no', code: 'worker_error', retryable: false } as const;

/** What may happen to the row of a job. */
const CHANGES = {
  lease: ({ stored }: Core, job: StoredJob) => stored.lease(job, LEASE),
  extend: ({ stored }: Core, job: StoredJob) => stored.extend(job, 'w', 50_000),
  orphan: ({ stored }: Core, job: StoredJob) => stored.orphan(job, 40_000, ORPHANED.byWorker),
  postpone: ({ stored }: Core, job: StoredJob) => stored.postpone(job, 45_000, true),
  'postpone all': ({ stored }: Core) => stored.postponeAll(100),
  progress: ({ stored }: Core, job: StoredJob) => stored.progress(job, 0.5, 'half'),
  release: ({ stored }: Core, job: StoredJob) =>
    stored.release(job, { ...ATTEMPTS, run_after: null, kept: null }),
  succeed: ({ stored }: Core, job: StoredJob) =>
    stored.end(
      { ...job, started_at: 2001, first_token_at: 2002 },
      {
        attempts: 1,
        attempt_errors: '[]',
        state: 'succeeded',
        worker_id: 'w',
        result: { text: 'done' },
        error: null,
      },
    ),
  fail: ({ stored }: Core, job: StoredJob) =>
    stored.end(job, { ...ATTEMPTS, state: 'failed', worker_id: 'w', result: null, error: ERROR }),
  retry: ({ stored }: Core, job: StoredJob) => stored.retry(job),
  write: ({ stored }: Core) => stored.writeNew(),
};
type Change = keyof typeof CHANGES;

describe('what is remembered of a row is what the row says', () => {
  it.each<[Change[]]>([
    [['write', 'lease', 'write', 'succeed']],
    [['lease', 'succeed']],
    [['lease', 'write', 'progress', 'succeed']],
    [['lease', 'extend', 'succeed']],
    [['lease', 'orphan', 'postpone', 'extend', 'release', 'lease', 'succeed']],
    [['lease', 'postpone all', 'succeed']],
    [['lease', 'postpone', 'progress', 'release', 'extend', 'fail', 'retry', 'lease', 'succeed']],
    [['fail', 'retry', 'lease', 'fail']],
    [['lease', 'progress', 'release', 'lease', 'succeed']],
  ])('after %j', (changes) => {
    const core = newCore();
    core.stored.insert({ ...JOB, id: 'a' });
    for (const change of changes) {
      CHANGES[change](core, core.stored.find('a') as StoredJob);
      const known = core.stored.find('a');
      expect(known).not.toBeNull();
      core.stored.writeNew();
      expect(known).toEqual(findJob(core.sql, 'a'));
    }
    expect(core.stored.takeResult('a')).toBe(changes.at(-1) === 'succeed' ? '{"text":"done"}' : null);
    const { seq } = core.stored.find('a') as StoredJob;
    core.stored.remove([{ seq, id: 'a' }]);
    expect(core.stored.find('a')).toBeNull();
  });
});

describe('a row whose attempt has failed', () => {
  it('is not kept in memory: what is told of attempts may be long', () => {
    const core = newCore();
    for (const id of ['smooth', 'failed']) core.stored.insert({ ...JOB, id });
    const find = (id: string) => core.stored.find(id) as StoredJob;
    core.stored.release(find('failed'), { ...ATTEMPTS, run_after: null, kept: null });
    for (const id of ['smooth', 'failed']) core.stored.lease(find(id), LEASE);
    core.stored.writeNew();
    expect(find('smooth')).toBe(find('smooth'));
    expect(find('failed')).toMatchObject({ state: 'leased', attempt_errors: ATTEMPTS.attempt_errors });
    expect(find('failed')).not.toBe(find('failed'));
  });
});

function newCore(): Core {
  const { database } = new QueueHarness();
  const sql = { exec: (query: string, ...bindings: never[]) => database.prepare(query).all(...bindings) };
  const alarm = { get: () => 0, set: () => {}, clear: () => {} };
  const settings = { queue_id: 'q', lease_seconds: 30, reconnect_grace_seconds: 10 };
  return createCore({ sql, alarm, now: () => 3000, random: () => 0.5 } as never, completeSettings(settings));
}

function result(queue: QueueHarness, worker: FakeConnection): void {
  const { job_id, fence_token } = worker.lastJob();
  queue.say(worker, { type: 'job_result', job_id, fence_token, result: { text: 'done' } });
}

describe('a job that finds a free slot', () => {
  it('costs a look for its id, one row, and one update when it is settled', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    queue.job();
    result(queue, worker);
    const before = queue.statements;
    const job = {
      job_type: 'chat_completion',
      payload: '{}',
      config_id: 'cfg',
      priority: 0,
      max_attempts: 3,
    };
    queue.queue.do('submitAndListen', [{ ...job, id: 'mine' }], [''], 'listener');
    expect(worker.lastJob().job_id).toBe('mine');
    expect(queue.statements - before).toBe(2);
    const { fence_token } = worker.lastJob();
    const text = JSON.stringify({ type: 'job_result', job_id: 'mine', fence_token, result: { a: 1 } });
    queue.say(worker, '{"type":"load","running":0,"waiting":0,"kv_cache_usage":0,"slots_free":1}');
    const settling = queue.statements;
    queue.sayUncommitted(worker, text);
    let heard = '';
    const listen = ({ jobs }: SettledJobs) => {
      heard = jobs.map(({ view }) => view).join();
    };
    queue.queue.wait('nextSettled', 'listener', 1000, listen);
    queue.queue.wait('nextSettled', 'listener', 1000, listen);
    queue.queue.answerListeners();
    expect(JSON.parse(heard)).toMatchObject({ id: 'mine', state: 'succeeded', result: { a: 1 } });
    expect(queue.statements - settling).toBe(1);
  });

  it('goes in its turn among those that come with it', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    queue.job();
    result(queue, worker);
    queue.submit({ id: 'low' }, { id: 'high', priority: 5 }, { id: 'high too', priority: 5 });
    const order = ['high', 'high too', 'low'];
    const given = order.map(() => {
      const { job_id } = worker.lastJob();
      result(queue, worker);
      return job_id;
    });
    expect(given).toEqual(order);
  });
});
