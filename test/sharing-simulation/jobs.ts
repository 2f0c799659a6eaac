import type { Tenant } from './tenants.ts';

/** What a tenant submits. */
export interface Job {
  id: string;
  tenant: Tenant;
  isStored: boolean;
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
