import { globSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';

/** What must be empty in a queue's tables when all its jobs are settled. */
const LEFTOVERS: { table: string; what: string; query: string }[] = [
  {
    table: 'jobs',
    what: 'jobs that are not settled',
    query: `SELECT count(*) AS n FROM jobs WHERE state IN ('pending', 'leased') OR settled_at IS NULL`,
  },
  {
    table: 'jobs',
    what: 'settled jobs with a lease or a retry, or held back',
    query: `SELECT count(*) AS n FROM jobs WHERE settled_at IS NOT NULL
      AND (lease_expires_at IS NOT NULL OR run_after IS NOT NULL OR is_held = 1)`,
  },
  {
    table: 'jobs',
    what: 'jobs that name a result without having one',
    query: `SELECT count(*) AS n FROM jobs WHERE result_file IS NOT NULL AND state != 'succeeded'`,
  },
];

/** Reads the databases of a queue that has stopped: what is left in them that should not be, and how many jobs. */
export function readTables(stateDir: string): { jobs: number; leftovers: string[] } {
  const leftovers: string[] = [];
  let jobs = 0;
  for (const path of globSync(join(stateDir, 'data', '*', 'queue.sqlite'))) {
    const database = new DatabaseSync(path, { readOnly: true });
    try {
      const count = (query: string) => Number(database.prepare(query).get()?.n ?? 0);
      const has = (table: string) =>
        count(`SELECT count(*) AS n FROM sqlite_master WHERE type = 'table' AND name = '${table}'`) > 0;
      if (!has('jobs')) continue;
      jobs += count('SELECT count(*) AS n FROM jobs');
      for (const { table, what, query } of LEFTOVERS) {
        const left = has(table) ? count(query) : 0;
        if (left > 0) leftovers.push(`${left} ${what}`);
      }
    } finally {
      database.close();
    }
  }
  return { jobs, leftovers };
}
