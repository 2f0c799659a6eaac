import type { Core } from '../state/state.ts';
import { Charges } from './charges.ts';
import { Counts } from './counts.ts';
import { Displaced } from './displaced.ts';
import { FailedAttempts } from './failed-attempts.ts';
import { Ledger } from './ledger.ts';
import { Listeners } from './listeners.ts';
import { Mirrors } from './mirrors.ts';
import { RequestRecords } from './request-records.ts';
import { UsageCounter } from './usage.ts';
import { UsageBook } from './usage-book.ts';
import { Waiters } from './waiters.ts';
import { Webhooks } from './webhooks.ts';
import { WithoutSuccess } from './without-success.ts';

/**
 * Registers all that is derived from a job's events. They handle each event in this order: counts decide whether a
 * request's record waits for the gateway, and usage reads a charge before it is settled.
 */
export function registerProjections(core: Core): void {
  const ledger = new Ledger(core);
  const counts = new Counts(core);
  const book = new UsageBook(core, counts);
  const charges = new Charges(core);
  const usage = new UsageCounter(core, book, charges, ledger);
  const records = new RequestRecords(core);
  const told = [
    new FailedAttempts(),
    new Displaced(core),
    new Webhooks(core),
    new Waiters(core),
    new Listeners(core),
    new Mirrors(core),
    new WithoutSuccess(core),
  ];
  for (const projection of [book, ledger, counts, records, usage, charges, ...told])
    core.projections.add(projection);
}
