import type { StoredJob } from '../job.ts';
import { COLUMNS, jobs, readExtras, writeExtras } from './jobs-table.ts';
import type { Sql } from './ports.ts';
import { row, rows } from './ports.ts';

/** The pool, priority and tenant by which pending jobs are looked up. */
type Place = Pick<StoredJob, 'config_id' | 'priority' | 'tenant'>;

/**
 * Statements on pending jobs, which wait for a slot (`jobs_ready`), for their next attempt (`jobs_delayed`), or are held
 * back by admission control (`jobs_held`).
 */

const IS_READY = `state = 'pending' AND run_after IS NULL AND is_held = 0`;
const IS_DELAYED = `state = 'pending' AND run_after IS NOT NULL`;
const IS_HELD = `state = 'pending' AND is_held = 1`;

function nextReady(tenant: 'IS NULL' | 'IN (?)', more = ''): string {
  return `SELECT id FROM jobs
    WHERE config_id IN (?) AND priority IN (?) AND tenant ${tenant} AND ${IS_READY} ${more}
    ORDER BY seq LIMIT 1`;
}

const NOT_THESE = `AND id NOT IN (SELECT value FROM json_each(?))
  AND (model IS NULL OR model NOT IN (SELECT value FROM json_each(?)))`;
const OF_NOBODY = { any: nextReady('IS NULL'), butThese: nextReady('IS NULL', NOT_THESE) };
const OF_TENANT = { any: nextReady('IN (?)'), butThese: nextReady('IN (?)', NOT_THESE) };

/**
 * Returns the id of a tenant's oldest ready job, without those in `except` and those that name one of these models. The
 * statement has `IN` and `IS NULL`, since SQLite compiles a statement anew whenever a value is bound that the choice of
 * a partial index may depend on, and takes `config_id = ?` and `tenant IS ?` for that: 7 µs instead of 20.
 */
export function nextReadyId(
  sql: Sql,
  { config_id, priority, tenant }: Place,
  except: ReadonlySet<string>,
  models: ReadonlySet<string>,
): string | null {
  const { any, butThese } = tenant === null ? OF_NOBODY : OF_TENANT;
  const place = tenant === null ? [config_id, priority] : [config_id, priority, tenant];
  const next =
    except.size + models.size === 0
      ? row<{ id: string }>(sql, any, ...place)
      : row<{ id: string }>(
          sql,
          butThese,
          ...place,
          JSON.stringify([...except]),
          JSON.stringify([...models]),
        );
  return next?.id ?? null;
}

/** Returns pending jobs of a pool, out of the three indexes alone. @param tenant null for every tenant */
export function pendingOfPool(sql: Sql, configId: string, tenant: string | null, most: number): StoredJob[] {
  const those = `config_id = ?1 AND (?2 IS NULL OR tenant = ?2)`;
  return jobs(
    sql,
    `SELECT * FROM (SELECT ${COLUMNS} FROM jobs INDEXED BY jobs_ready WHERE ${those} AND ${IS_READY} LIMIT ?3)
     UNION ALL
     SELECT * FROM (SELECT ${COLUMNS} FROM jobs INDEXED BY jobs_delayed WHERE ${those} AND ${IS_DELAYED} LIMIT ?3)
     UNION ALL
     SELECT * FROM (SELECT ${COLUMNS} FROM jobs INDEXED BY jobs_held WHERE ${those} AND ${IS_HELD} LIMIT ?3)
     LIMIT ?3`,
    configId,
    tenant,
    most,
  );
}

/** Makes the jobs ready whose retry delay is over. @returns the place of each */
export function wakeDelayed(sql: Sql, now: number): Place[] {
  return rows(
    sql,
    `UPDATE jobs SET run_after = NULL WHERE state = 'pending' AND run_after <= ? RETURNING config_id, priority, tenant`,
    now,
  );
}

/**
 * Counts pending jobs by place, out of the three indexes alone; `run_after` of jobs that wait for their next attempt is
 * their latest.
 */
export function countPending(sql: Sql): (Place & Pick<StoredJob, 'run_after' | 'is_held'> & { n: number })[] {
  const place = 'config_id, priority, tenant';
  return rows(
    sql,
    `SELECT ${place}, NULL AS run_after, 0 AS is_held, count(*) AS n FROM jobs INDEXED BY jobs_ready
       WHERE ${IS_READY} GROUP BY ${place}
     UNION ALL SELECT ${place}, max(run_after) AS run_after, 0 AS is_held, count(*) AS n FROM jobs INDEXED BY jobs_delayed
       WHERE ${IS_DELAYED} GROUP BY ${place}
     UNION ALL SELECT ${place}, NULL AS run_after, 1 AS is_held, count(*) AS n FROM jobs INDEXED BY jobs_held
       WHERE ${IS_HELD} GROUP BY ${place}`,
  );
}

/**
 * Returns when the job that waits longest for a slot was submitted, epoch ms; null if none waits for one. It goes from
 * tenant to tenant, not from job to job.
 */
export function oldestPending(sql: Sql, configId: string, priority: number): number | null {
  const those = `${IS_READY} AND config_id = ?1 AND priority = ?2`;
  const first = `ORDER BY tenant, seq LIMIT 1`;
  const oldest = row<{ at: number }>(
    sql,
    `WITH RECURSIVE firsts (tenant, seq) AS (
       SELECT * FROM (SELECT tenant, seq FROM jobs INDEXED BY jobs_ready WHERE ${those} ${first})
       UNION ALL
       SELECT next.tenant, next.seq FROM firsts JOIN jobs AS next ON next.seq = (
         SELECT seq FROM jobs INDEXED BY jobs_ready
         WHERE ${those} AND tenant > coalesce(firsts.tenant, '') ${first}))
     SELECT created_at AS at FROM jobs WHERE seq = (SELECT min(seq) FROM firsts)`,
    configId,
    priority,
  );
  return oldest?.at ?? null;
}

/** Counts the jobs that are held back, by token, pool and priority. */
export function countHeld(
  sql: Sql,
): { token_name: string; config_id: string; priority: number; n: number }[] {
  return rows(
    sql,
    `SELECT token_name, config_id, priority, count(*) AS n FROM jobs INDEXED BY jobs_held
     WHERE ${IS_HELD} GROUP BY token_name, config_id, priority`,
  );
}

/** Returns the oldest job of a token, a pool and a priority that is held back. */
export function nextHeldId(
  sql: Sql,
  { token_name, config_id, priority }: Pick<StoredJob, 'token_name' | 'config_id' | 'priority'>,
): string | null {
  const [next] = rows<{ id: string }>(
    sql,
    `SELECT id FROM jobs INDEXED BY jobs_held
     WHERE ${IS_HELD} AND token_name = ? AND config_id = ? AND priority = ? ORDER BY seq LIMIT 1`,
    token_name,
    config_id,
    priority,
  );
  return next?.id ?? null;
}

/** Holds a pending job back, or makes one ready that was held back. */
export function holdJob(sql: Sql, id: string, isHeld: StoredJob['is_held']): void {
  sql.exec(`UPDATE jobs SET is_held = ? WHERE id = ? AND state = 'pending'`, isHeld, id);
}

/** Writes where a pending job is now. */
export function moveJob(
  sql: Sql,
  {
    id,
    config_id,
    model,
    extras,
    is_held,
  }: Pick<StoredJob, 'id' | 'config_id' | 'model' | 'extras' | 'is_held'>,
): void {
  sql.exec(
    `UPDATE jobs SET config_id = ?, model = ?, extras = ?, is_held = ?, partial = NULL WHERE id = ? AND state = 'pending'`,
    config_id,
    model,
    writeExtras(extras),
    is_held,
    id,
  );
}

/** Returns ready jobs of a pool that ask for an alias, behind the first `skipped` of them. */
export function aliasedOfPool(sql: Sql, configId: string, most: number, skipped: number): StoredJob[] {
  return jobs(
    sql,
    `SELECT ${COLUMNS} FROM jobs INDEXED BY jobs_ready
     WHERE config_id = ? AND ${IS_READY} AND extras LIKE '%"alias":{%' LIMIT ? OFFSET ?`,
    configId,
    most,
    skipped,
  );
}

/** Returns the stored jobs with a cost that run, or wait for a slot for the first time and are not held back. */
export function jobsWithCost(
  sql: Sql,
): (Pick<StoredJob, 'id' | 'token_name' | 'config_id' | 'priority' | 'extras'> & { runs: 0 | 1 })[] {
  return rows<{
    id: string;
    token_name: string;
    config_id: string;
    priority: number;
    extras: string;
    runs: 0 | 1;
  }>(
    sql,
    `SELECT id, token_name, config_id, priority, extras, state = 'leased' AS runs FROM jobs
     INDEXED BY jobs_limited WHERE is_limited = 1 AND settled_at IS NULL
       AND (state = 'leased' OR (run_after IS NULL AND is_held = 0 AND leased_at IS NULL))`,
  ).map((job) => ({ ...job, extras: readExtras(job.extras) }));
}
