import { BLOCK_ENDS, type Prefix } from '../../src/queue/rpc.ts';
import type { Tenant } from './tenants.ts';

/** What a tenant submits. */
export interface Job {
  id: string;
  tenant: Tenant;
  isStored: boolean;
  /** Of which of a few texts its prompt is the beginning; null: of none that another one has. */
  text: number | null;
  input: number;
  output: number;
  /** What its submitter says that it may cost. */
  reserved: number;
  /** `away`: its worker is gone and its lease or retry delay is not over, or its caller is about to ask again. */
  state: 'pending' | 'running' | 'away' | 'over';
}

/** An attempt at a worker. */
export interface Run {
  job: Job;
  fence: number;
  account: unknown;
  come: number;
}

/** As long as its share is counted by, whatever it has in common with others. */
export function prefixOf({ text, input }: Job): Prefix {
  const hashes = text === null ? [] : BLOCK_ENDS.slice(0, 2).map((_, at) => text * 100 + at);
  return { session: text ?? 0, bytes: input * 4, hashes };
}
