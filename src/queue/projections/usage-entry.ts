import type { UsageAmounts, UsageKey } from '../rpc.ts';

/** The amounts that are counted at one time, and whom they are counted for. */
export interface UsageEntry {
  key: UsageKey;
  amounts: Partial<UsageAmounts>;
  /** The job that ends with this entry, if one does; its limits have counted its tokens as they came. */
  job_id?: string;
}
