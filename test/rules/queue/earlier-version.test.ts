import { readFileSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { expect, it } from 'vitest';
import type { Row, SqlValue } from '../../../src/durable/ports.ts';
import { findJob } from '../../../src/queue/store/jobs-table.ts';
import { settle, standing, stored } from '../../support/limited-requests.ts';
import { QueueHarness } from '../../support/queue-harness.ts';

/** A queue opens the tables of an earlier version and brings them up to date. */

const limits = { running: 1 };

function written25(): DatabaseSync {
  const database = new DatabaseSync(':memory:');
  database.exec(readFileSync(new URL('state-25.sql', import.meta.url), 'utf8'));
  return database;
}

/** The tables and indexes of a database as SQLite lists them, without how their statements are laid out. */
function schema(database: DatabaseSync): unknown[] {
  const columns = database.prepare(
    `SELECT m.name AS of, c.name FROM sqlite_master AS m, pragma_table_info(m.name) AS c WHERE m.type = 'table'`,
  );
  const indexes = database.prepare(
    `SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql NOT NULL`,
  );
  const sorted = (rows: unknown[]) =>
    rows.map((row) => JSON.stringify(row).replaceAll(/(\\n|\s)+/g, ' ')).sort();
  return [sorted(columns.all()), sorted(indexes.all())];
}

it('a database of version 25 gets the tables of a new one', () => {
  const database = written25();
  new QueueHarness({}, database);
  const fresh = new QueueHarness().database;
  expect(schema(database)).toEqual(schema(fresh));
  const version = (of: DatabaseSync) => of.prepare(`SELECT version FROM schema_version`).all();
  expect(version(database)).toEqual(version(fresh));
});

it('jobs that limits held back in version 25 are held, and admitted in their order', () => {
  const queue = new QueueHarness({}, written25());
  expect(standing(queue)).toMatchObject({ running: { used: 1, limit: 1 }, held: 2 });
  const [job_id, fence_token] = ['runs', 1];
  const worker = queue.worker('w', { capacity: 10, jobs: [{ job_id, fence_token }] });
  // What waits for a retry, and what was ready, goes on beside them.
  expect(['held-1', 'held-2', 'ready', 'fails'].map((id) => queue.state(id))).toEqual([
    'pending',
    'pending',
    'leased',
    'pending',
  ]);
  // The host's alarm outlives the process.
  queue.alarmAt = queue.nowMs + 750;
  queue.advance(1);
  expect(queue.state('fails')).toBe('leased');
  queue.job({ ...stored(limits), id: 'new' });
  queue.say(worker, { type: 'job_result', job_id, fence_token, result: {} });
  expect(worker.lastJob().job_id).toBe('held-1');
  settle(queue, worker);
  expect(worker.lastJob().job_id).toBe('held-2');
  expect(standing(queue).held).toBe(1);
  settle(queue, worker);
  expect(worker.lastJob().job_id).toBe('new');
});

it('what features kept of a job in columns of their own is among its extras', () => {
  const database = written25();
  const given = {
    weight: 2.5,
    cost: { model: null, served: 'tiny', tokens: 10 },
    prefix: { session: 0, bytes: 600, hashes: [7] },
    trace: { traceparent: `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01` },
    webhook: 'https://a.test/?q="1"',
  };
  const add = database.prepare(
    `INSERT INTO jobs (id, job_type, config_id, state, priority, max_attempts, fence_token, worker_id, payload, created_at,
       leased_at, lease_expires_at, settled_at, settlement, result, weight, cost, prefix, trace, webhook)
     VALUES (?, 'chat_completion', 'cfg', ?, 0, 3, ?, ?, '{}', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  const at = 1_767_225_600_000;
  const columns = [
    given.weight,
    JSON.stringify(given.cost),
    JSON.stringify(given.prefix),
    JSON.stringify(given.trace),
    given.webhook,
  ];
  add.run('pending', 'pending', 0, null, at, null, null, null, null, null, ...columns);
  add.run('leased', 'leased', 9, 'w', at, at, at + 30_000, null, null, null, ...columns);
  add.run('settled', 'succeeded', 8, 'w', at, at, null, at, 1, '{"text":"done"}', ...columns);
  add.run('plain', 'pending', 0, null, at, null, null, null, null, null, 1, null, null, null, null);
  const queue = new QueueHarness({}, database);
  const sql = {
    exec: (query: string, ...given: SqlValue[]) => database.prepare(query).all(...given) as Row[],
  };
  for (const id of ['pending', 'leased', 'settled']) expect(findJob(sql, id)?.extras).toEqual(given);
  expect(findJob(sql, 'plain')?.extras).toEqual({});
  expect(queue.queue.read('get', 'settled', null)).toMatchObject({
    trace_id: 'a'.repeat(32),
    result: { text: 'done' },
  });
  const worker = queue.worker('w', { capacity: 10, jobs: [{ job_id: 'leased', fence_token: 9 }] });
  queue.say(worker, { type: 'job_result', job_id: 'leased', fence_token: 9, result: {} });
  expect(queue.state('leased')).toBe('succeeded');
  queue.advance(1);
  expect(queue.queue.webhooks.take()).toMatchObject([{ about: 'leased', url: given.webhook }]);
});
