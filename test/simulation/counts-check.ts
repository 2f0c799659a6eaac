import { readCounts } from '../../src/queue/projections/counts.ts';
import { newCounts, OUTCOMES, type PoolCounts } from '../../src/queue/projections/pool-counts.ts';
import type { Sql } from '../../src/queue/store/ports.ts';

/**
 * Whether the counts of stored jobs on disk are what the rows of the jobs say: both are written in one commit, whatever
 * fails in between. No run lasts until jobs are forgotten.
 * @returns what is wrong; null: nothing is
 */
export function countsProblem(sql: Sql): string | null {
  const jobs = sql.exec(`SELECT config_id, state FROM jobs`);
  const counted = new Map(
    readCounts(sql).map(({ config_id, counts }) => [config_id, JSON.parse(counts) as PoolCounts]),
  );
  for (const configId of new Set(jobs.map(({ config_id }) => String(config_id)))) {
    const states = jobs.filter(({ config_id }) => config_id === configId).map(({ state }) => state);
    const { submitted, settled } = counted.get(configId) ?? newCounts();
    const admitted = submitted.stored - settled.stored.rejected;
    if (admitted !== states.length)
      return `${admitted} jobs of ${configId} are counted, ${states.length} there`;
    for (const outcome of OUTCOMES) {
      if (outcome === 'rejected') continue;
      const there = states.filter((state) => state === outcome).length;
      const said = settled.stored[outcome];
      if (said !== there) return `${said} jobs of ${configId} are counted as ${outcome}, ${there} are`;
    }
  }
  return null;
}
