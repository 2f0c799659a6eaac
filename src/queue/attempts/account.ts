import { jsonOrText, Usage } from '../../protocol/index.ts';
import type { Job } from '../job.ts';
import type { Core } from '../state/state.ts';
import type { Worker } from '../state/worker.ts';

/**
 * Reads what frames say about the usage of attempts: whom it is counted for, where a restart of the queue may have lost
 * the job, and what a base worker's result reports.
 */

/** Returns the account that a job's frame carries so that its worker returns it; null if it needs none. */
export function accountOf(job: Job): string | null {
  const { mode, tenant, token_name } = job;
  if (mode === 'stored' || tenant === null) return null;
  const { admitted_at, leased_at } = job;
  const { cost } = job.extras;
  const given = [tenant, token_name ?? '', leased_at];
  return JSON.stringify(cost === undefined ? given : [...given, admitted_at, cost.tokens, cost.model]);
}

/** Returns tenant and token of an account. */
export function accountIn(account: string | undefined): string[] {
  return partsOf(account).map((name) => String(name).slice(0, 256));
}

/**
 * Reads from the account when the worker was given a request from before the queue's restart, epoch ms; null if
 * unknown.
 */
export function givenAt(account: string | undefined): number | null {
  const at = partsOf(account)[2];
  return typeof at === 'number' ? at : null;
}

/** Re-admits a request from before the queue restarted, since its worker goes on with it. */
export function resumeRequest(core: Core, worker: Worker, jobId: string, account: string | undefined): void {
  const [tenant, token_name, , admittedAt, tokens, model] = partsOf(account);
  if (
    typeof tenant !== 'string' ||
    typeof token_name !== 'string' ||
    typeof admittedAt !== 'number' ||
    typeof tokens !== 'number'
  )
    return;
  const { worker_id, config_id } = worker.session;
  const cost = { model: typeof model === 'string' ? model : null, tokens };
  core.admission.book.resume(
    { id: jobId, tenant, token_name, config_id, extras: { cost } },
    admittedAt,
    worker_id,
  );
}

function partsOf(account: string | undefined): unknown[] {
  const parts = account === undefined ? [] : jsonOrText(account);
  return Array.isArray(parts) ? parts : [];
}

/** Reads the usage that a base worker reports within the result of a chat. */
export function usageIn(result: Record<string, unknown> | null): Usage | undefined {
  const { usage, model } = Object(result?.completion) as { usage?: unknown; model?: unknown };
  if (usage === undefined) return undefined;
  const told = Usage.safeParse({ ...Object(usage), ...(typeof model === 'string' && { model }) });
  return told.success ? told.data : undefined;
}
