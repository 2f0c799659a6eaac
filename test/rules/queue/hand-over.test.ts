import { DatabaseSync } from 'node:sqlite';
import { expect, it } from 'vitest';
import { migrate } from '../../../src/durable/migrate.ts';
import type { Row, SqlValue } from '../../../src/durable/ports.ts';
import { MIGRATIONS } from '../../../src/queue/store/migrations.ts';
import { QueueHarness } from '../../support/queue-harness.ts';

/** Migrations of the last version that kept workers and models in the queue's own database. */
const BEFORE_FLEET = 5;
const NOW = Date.UTC(2026, 0, 1);
const HOUR_MS = 3_600_000;

/** A database of that version, with a worker, its job and its heartbeat. */
function earlierState(): DatabaseSync {
  const database = new DatabaseSync(':memory:');
  const exec = (query: string, ...bindings: SqlValue[]) =>
    database.prepare(query).all(...bindings) as unknown as Row[];
  migrate({ exec }, MIGRATIONS.slice(0, BEFORE_FLEET));
  const instance = JSON.stringify({ id: 'i', gpu: 'H100', models: ['tiny'], boot_id: 'boot-1' });
  const beat = JSON.stringify({ instance_id: 'i', status: 'error', error_message: 'hangs' });
  const worker = `INSERT INTO workers (worker_id, config_id, instance, heartbeat, heartbeat_at, heard_at) VALUES (?, ?, ?, ?, ?, ?)`;
  exec(worker, 'w', 'cfg', instance, beat, NOW - 5000, NOW - HOUR_MS);
  exec(worker, 'beats only', null, null, beat, NOW - 5000, NOW - 5000);
  exec(
    worker,
    'long gone',
    'cfg-old',
    JSON.stringify({ id: 'o', models: ['old'] }),
    null,
    null,
    NOW - 48 * HOUR_MS,
  );
  exec(
    `INSERT INTO models (model, config_id, first_seen) VALUES ('tiny', 'cfg', 1), ('junk', 'cfg-junk', 2)`,
  );
  exec(
    `INSERT INTO jobs (id, job_type, config_id, state, priority, max_attempts, fence_token, worker_id, payload,
       created_at, leased_at, lease_expires_at)
     VALUES ('held', 'chat_completion', 'cfg', 'leased', 0, 3, 7, 'w', '{}', 1, 1, ?)`,
    NOW + 30_000,
  );
  return database;
}

it('workers that an earlier version stored are known to the fleet object, with what they served and last said', () => {
  const queue = new QueueHarness({}, earlierState());
  expect(queue.fleet.registry.workers()).toMatchObject([
    { worker_id: 'long gone', heartbeat: null },
    {
      worker_id: 'w',
      config_id: 'cfg',
      instance: { gpu: 'H100', models: ['tiny'] },
      heartbeat: { error_message: 'hangs' },
      heartbeat_at: NOW - 5000,
    },
  ]);
  expect(queue.fleet.registry.models().map(({ id }) => id)).toEqual(['tiny']);
  expect(queue.request()).toMatchObject([{ reason: 'no_worker' }]);
  queue.restart();
  expect(queue.logLines).toEqual([]);
});

it('the process that held a job before the upgrade goes on with it, another one is charged', () => {
  const jobs = [{ job_id: 'held', fence_token: 7 }];
  const same = new QueueHarness({}, earlierState());
  same.worker('w', { instance: { boot_id: 'boot-1' } });
  expect(same.queue.jobs.get('held', null)).toMatchObject({ attempts: 0, attempt_errors: [] });
  const listed = new QueueHarness({}, earlierState());
  expect(listed.worker('w', { jobs, instance: { boot_id: 'boot-1' } }).frames('registered')).toMatchObject([
    { resumed: ['held'] },
  ]);
  const other = new QueueHarness({}, earlierState());
  other.worker('w', { instance: { boot_id: 'boot-2' } });
  expect(other.queue.jobs.get('held', null)).toMatchObject({ attempt_errors: [{ code: 'worker_died' }] });
});
