import { toCounts } from '../projections/count.ts';
import { toLedger } from '../projections/ledger.ts';
import { toLog } from '../projections/log.ts';
import { toRecent } from '../projections/recent-ledger.ts';
import { toRequests } from '../projections/request-records.ts';
import type { Job } from '../state/job.ts';
import type { Core } from '../state/state.ts';
import type { Facts, JobEvent, JobStep, Told } from './event.ts';

const SINKS: readonly ((core: Core, event: JobEvent) => void)[] = [
  toLedger,
  toRecent,
  toLog,
  toCounts,
  toRequests,
];

/** Passes what happened to a job on to ledgers, log, counts and request records, which all learn of it here. */
export function emit(
  core: Core,
  job: Job,
  step: JobStep,
  detail: string | null = null,
  told: Told & Facts = {},
): void {
  const event = { job, step, detail, at: core.now(), ...told };
  for (const sink of SINKS) sink(core, event);
}
