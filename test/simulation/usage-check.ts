import type { UsageAmounts } from '../../src/queue/rpc.ts';
import type { Sql } from '../../src/queue/store/ports.ts';
import type { Exchange } from './engine.ts';

/** Every job and every request of a run is submitted by a tenant of its own, so that what is counted can be told apart. */
type Row = UsageAmounts & { tenant: string };

export interface UsageKnown {
  /** Stored jobs that are over, with how they ended. */
  stored: ReadonlyMap<string, string>;
  /** Results of which a worker was told that the queue has them: the job by the fence token. */
  acknowledged: ReadonlyMap<number, string>;
  exchanges: readonly Exchange[];
  /** How often the queue has lost its memory. */
  restarts: number;
}

/** What is wrong with what was counted; null: nothing is. */
export function usageProblem(
  sql: Sql,
  { stored, acknowledged, exchanges, restarts }: UsageKnown,
): string | null {
  const rows = readRows(sql);
  const said = Map.groupBy(exchanges, ({ jobId }) => jobId);
  for (const [id, state] of stored) {
    const row = rows.get(id);
    if (row?.requests !== 1) return `${id} ${state} was counted ${row?.requests ?? 0} times`;
    const as = state === 'succeeded' || state === 'cancelled' ? state : 'failed';
    if (row[as] !== 1) return `${id} ${state} is not counted as ${as}`;
  }
  const counted = countedFences(sql);
  for (const [fence, id] of acknowledged) {
    if (!stored.has(id) && !counted.has(fence)) return `${id}#${fence} was acknowledged and is not counted`;
  }
  for (const [id, row] of rows) {
    const problem = problemOf(row, said.get(id) ?? [], restarts);
    if (problem !== null) return `${id}: ${problem}`;
  }
  return null;
}

function problemOf(row: Row, exchanges: readonly Exchange[], restarts: number): string | null {
  // An attempt from before the restart before the last may come after another one (docs/usage.md).
  if (row.succeeded > 1 && (restarts < 2 || row.succeeded > exchanges.length))
    return `${row.succeeded} successes are counted`;
  if (row.requests !== row.succeeded + row.failed + row.cancelled) return 'requests ended in no way';
  // A base worker does not look at why an answer ended.
  const whole = exchanges.filter(
    ({ state, ending, status }) => (state === 'whole' || ending === 'aborted_by_engine') && status < 400,
  );
  // What a restarted queue hears of earlier attempts it takes as it is told.
  const spent = (one: Exchange) => (restarts < 1 ? one.spends : one.promptTokens + one.tokens);
  const most = exchanges.reduce((sum, one) => sum + spent(one), 0);
  if (row.input + row.output + row.wasted > most)
    return `${row.output} and ${row.wasted} wasted are more than ${most}`;
  if (row.requests !== 1 || row.succeeded !== 1) return null;
  // An engine that once refused a request is not asked for usage any more.
  const isSaid = whole.some(({ promptTokens, tokens }) =>
    row.estimated_requests === 0 ? tokens === row.output && row.input === promptTokens : row.output <= tokens,
  );
  return isSaid ? null : `${row.input} and ${row.output} tokens are what no attempt used`;
}

function readRows(sql: Sql): Map<string, Row> {
  const rows = sql.exec(
    `SELECT tenant, sum(requests) AS requests, sum(succeeded) AS succeeded, sum(failed) AS failed,
       sum(cancelled) AS cancelled, sum(input) AS input, sum(output) AS output, sum(wasted) AS wasted,
       sum(estimated_requests) AS estimated_requests
     FROM usage GROUP BY tenant`,
  ) as unknown as Row[];
  return new Map(rows.map((row) => [row.tenant, row]));
}

function countedFences(sql: Sql): Set<number> {
  const rows = sql.exec(`SELECT fences FROM counted_attempts`);
  return new Set(rows.flatMap(({ fences }) => String(fences).split(',').map(Number)));
}
