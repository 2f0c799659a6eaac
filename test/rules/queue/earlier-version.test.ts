import { readFileSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { expect, it } from 'vitest';
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
