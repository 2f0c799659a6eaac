import { describe, expect, it } from 'vitest';
import type { JobListWanted, JobPage } from '../../../src/queue/rpc.ts';
import { QueueHarness } from '../../support/queue-harness.ts';

type Wanted = Partial<Omit<JobListWanted, 'filter'> & JobListWanted['filter']>;

function list(queue: QueueHarness, wanted: Wanted = {}): JobPage {
  const { state = null, config_id = null, job_type = null, ...others } = wanted;
  const { tenant = null, worker_id = null, error_code = null, ...rest } = others;
  const filter = { state, config_id, job_type, tenant, worker_id, error_code };
  return queue.queue.read('list', {
    filter,
    id_prefix: null,
    since: null,
    until: null,
    before: null,
    limit: 50,
    viewer: null,
    ...rest,
  });
}

/** Every page to the end, and how many there were. */
function pages(queue: QueueHarness, wanted: Wanted): { ids: string[]; pages: number } {
  const ids: string[] = [];
  for (let pages = 1, before: JobPage['next'] = null; ; pages += 1) {
    const page = list(queue, { ...wanted, before });
    ids.push(...page.jobs.map(({ id }) => id));
    before = page.next;
    if (before === null) return { ids, pages };
  }
}

describe('the list of jobs', () => {
  it('has the newest first, without payloads and results, page by page', () => {
    const queue = new QueueHarness();
    const ids = Array.from({ length: 7 }, (_, n) => queue.job({ id: `j${n}` }));
    const page = list(queue, { limit: 3 });
    expect(page.jobs.map(({ id }) => id)).toEqual(['j6', 'j5', 'j4']);
    expect(Object.keys(page.jobs[0]!)).not.toEqual(expect.arrayContaining(['payload']));
    expect(page.jobs[0]).not.toHaveProperty('result');
    queue.job({ id: 'newer' });
    const next = list(queue, { limit: 3, before: page.next });
    expect(next.jobs.map(({ id }) => id)).toEqual(['j3', 'j2', 'j1']);
    expect(pages(queue, { limit: 2 }).ids).toEqual(['newer', ...ids.reverse()]);
  });

  it('is filtered by state, pool, type, tenant and time', () => {
    const queue = new QueueHarness();
    const startedMs = queue.nowMs;
    queue.job({ id: 'old', tenant: 'me' });
    queue.advance(10);
    queue.job({ id: 'mine', tenant: 'me', config_id: 'other' });
    queue.job({ id: 'yours', tenant: 'you', job_type: 'llm_inference' });
    queue.queue.do('cancel', 'yours', 'cancelled', null);
    const ids = (wanted: Wanted) => list(queue, wanted).jobs.map(({ id }) => id);
    expect(ids({ viewer: 'me' })).toEqual(['mine', 'old']);
    expect(ids({ config_id: 'cfg' })).toEqual(['yours', 'old']);
    expect(ids({ job_type: 'llm_inference' })).toEqual(['yours']);
    expect(ids({ state: 'cancelled' })).toEqual(['yours']);
    expect(ids({ state: 'pending', viewer: 'me', config_id: 'other' })).toEqual(['mine']);
    expect(ids({ since: startedMs + 10_000 })).toEqual(['yours', 'mine']);
    expect(ids({ until: startedMs + 10_000 })).toEqual(['old']);
    expect(ids({ since: startedMs, until: startedMs })).toEqual([]);
  });

  it('is filtered by worker and by the code of the error', () => {
    const queue = new QueueHarness();
    const one = queue.worker('w1');
    const other = queue.worker('w2');
    const ids = (wanted: Wanted) => list(queue, wanted).jobs.map(({ id }) => id);
    for (const id of ['a', 'b']) queue.job({ id, max_attempts: 1 });
    const fail = (worker: typeof one, code: string) => {
      const { job_id, fence_token } = worker.lastJob();
      queue.say(worker, {
        type: 'job_error',
        job_id,
        fence_token,
        error: 'it broke',
        code,
        retryable: false,
      });
    };
    fail(one, 'out_of_memory');
    expect(ids({ error_code: 'out_of_memory' })).toEqual([one.lastJob().job_id]);
    expect(ids({ error_code: 'out_of_memory', state: 'cancelled' })).toEqual([]);
    expect(ids({ worker_id: 'w2' })).toEqual([other.lastJob().job_id]);
    expect(ids({ state: 'leased' })).toEqual([other.lastJob().job_id]);
    expect(ids({ worker_id: 'w2', state: 'failed' })).toEqual([]);
  });

  it('finds jobs by how their ids begin, in the order of their ids', () => {
    const queue = new QueueHarness();
    for (const id of ['b-2', 'a-1', 'b-10', 'b', 'c', 'B-1'])
      queue.job({ id, tenant: id === 'b' ? 'you' : 'me' });
    expect(pages(queue, { id_prefix: 'b', limit: 2 })).toEqual({ ids: ['b', 'b-10', 'b-2'], pages: 2 });
    expect(pages(queue, { id_prefix: 'b', viewer: 'me' }).ids).toEqual(['b-10', 'b-2']);
    expect(pages(queue, { tenant: 'you' }).ids).toEqual(['b']);
    expect(pages(queue, { tenant: 'you', viewer: 'me' }).ids).toEqual([]);
    expect(pages(queue, { id_prefix: 'b-2', state: 'cancelled' }).ids).toEqual([]);
  });

  it('loses and repeats none where a page ends in the middle of a filter', () => {
    const queue = new QueueHarness({ max_pending: 10_000 });
    for (let n = 0; n < 60; n += 1) {
      queue.job({ id: `j${n}`, config_id: n % 2 ? 'odd' : 'cfg' });
      if (n % 3 === 0) queue.queue.do('cancel', `j${n}`, 'cancelled', null);
    }
    const wanted = Array.from({ length: 60 }, (_, n) => 59 - n).filter((n) => n % 2 === 1 && n % 3 === 0);
    for (const limit of [1, 2, 3, 7, 100]) {
      const found = pages(queue, { limit, state: 'cancelled', config_id: 'odd' });
      expect(found.ids).toEqual(wanted.map((n) => `j${n}`));
    }
  });

  it('looks at a bounded part of 100,000 jobs, in an index', () => {
    const queue = new QueueHarness();
    queue.database.exec(`
      WITH RECURSIVE n (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM n WHERE n < 100000)
      INSERT INTO jobs (id, job_type, config_id, state, priority, max_attempts, payload, created_at, tenant)
        SELECT 'j' || n, 'chat_completion', 'cfg', 'succeeded', 0, 3, '{}', n, iif(n = 50, 'rare', 'usual') FROM n`);
    const before = queue.statements;
    const page = list(queue, { viewer: 'rare' });
    expect(page).toMatchObject({ jobs: [], next: { created_at: 98_001 } });
    expect(queue.statements - before).toBe(1);
    const found = pages(queue, { viewer: 'rare' });
    expect(found).toEqual({ ids: ['j50'], pages: 51 });
    expect(pages(queue, { since: 99_990, until: 99_995 }).ids).toHaveLength(5);
    const plan = queue.database
      .prepare(
        `EXPLAIN QUERY PLAN SELECT '' AS id, created_at, seq, config_id, tenant, job_type FROM jobs INDEXED BY jobs_listed
           WHERE (created_at, seq) < (?, ?) AND created_at >= ? ORDER BY created_at DESC, seq DESC LIMIT ?`,
      )
      .all() as { detail: string }[];
    expect(plan.map(({ detail }) => detail)).toEqual([
      expect.stringMatching(/^SEARCH jobs USING COVERING INDEX jobs_listed/),
    ]);
    // What went wrong is found however much went well.
    queue.database.exec(
      `UPDATE jobs SET state = 'failed', error = '{"code":"odd","message":"m"}' WHERE id = 'j50'`,
    );
    expect(pages(queue, { state: 'failed' })).toEqual({ ids: ['j50'], pages: 1 });
    expect(pages(queue, { error_code: 'odd' })).toEqual({ ids: ['j50'], pages: 1 });
    expect(pages(queue, { id_prefix: 'j5', limit: 500 }).ids).toHaveLength(11_111);
  });
});
