import type { UsageAmounts, UsageKey } from '../rpc.ts';

/** What is counted at a time, and for whom. */
export interface UsageEntry {
  key: UsageKey;
  amounts: Partial<UsageAmounts>;
  /** What ends with it: its limits have counted what had come of it. */
  job_id?: string;
}
