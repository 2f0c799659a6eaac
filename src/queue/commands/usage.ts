import type { UsageSum, UsageWanted } from '../rpc.ts';
import type { Core } from '../state/state.ts';
import { sumUsage } from '../store/usage-table.ts';

/** The most rows of an answer about usage; more must be requested in parts. */
const MOST_ROWS = 10_000;

/** Writes what is still counted in memory, and sums everything that was used until now. */
export function usage(core: Core, wanted: UsageWanted): UsageSum[] {
  core.usage.write();
  return sumUsage(core.sql, wanted, MOST_ROWS);
}
