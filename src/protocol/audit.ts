import * as z from 'zod';

/** What people do that the audit records. */
export const AUDIT_ACTIONS = [
  'token.create',
  'token.change',
  'token.rotate',
  'token.revoke',
  'fleet.apply',
  'fleet.remove',
  'pool.launch',
  'pool.drain',
  'pool.pause',
  'pool.resume',
  /** Of a problem of the attention list. */
  'attention.acknowledge',
  /** Makes the fleet forget a worker that is gone. */
  'worker.forget',
  /** Of another tenant's job, as are the next three of another tenant's batch or file. */
  'job.cancel',
  'job.retry',
  'batch.cancel',
  'file.delete',
  /** Of all stored jobs that match a filter. */
  'jobs.cancel',
  'jobs.retry',
  'queue.purge',
] as const;
export type AuditAction = (typeof AUDIT_ACTIONS)[number];

/**
 * `begun`: it was about to be done, and its end was not recorded, as when the queue was killed in between: it may have
 * been done. It becomes one of the others, once. `refused`: nothing was changed. `failed`: it may have been done in part.
 */
const AUDIT_OUTCOMES = ['begun', 'done', 'refused', 'failed'] as const;
export type AuditOutcome = (typeof AUDIT_OUTCOMES)[number];

/** One action of a person, as `GET /api/audit` tells it. Times are ISO. Never a token, a hash, a prompt or an answer. */
export const AuditEntry = z.object({
  /** Rises with each entry. */
  seq: z.number().int(),
  at: z.string(),
  /** Name of the token; null: none was asked for, or it is what a token file or `TOKENS` says. */
  actor: z.string().nullable(),
  /** Tenant of the token. */
  tenant: z.string().nullable(),
  action: z.enum(AUDIT_ACTIONS),
  /** Name or id of what it was done to: a token, a pool, a job, a batch, a file; of a fleet's file its queue; of all jobs that match, the filter; of a problem its id. */
  target: z.string(),
  /** As it was and as it became, what of it counts; null: there was nothing, or nothing is told. */
  before: z.unknown(),
  after: z.unknown(),
  outcome: z.enum(AUDIT_OUTCOMES),
  /** Code of the error that it was answered with. */
  error: z.string().nullable(),
  ended_at: z.string().nullable(),
  /** `POST /api/tokens`; `token file`: a token file, QUEUE_TOKENS or the secret TOKENS has changed. */
  route: z.string(),
  /** Tokens are of all queues: the one that was asked through. */
  queue_id: z.string(),
});
export type AuditEntry = z.infer<typeof AuditEntry>;

/** Answer of `GET /api/audit`, newest first. */
export const AuditPage = z.object({
  entries: z.array(AuditEntry),
  /** The cursor of the next page; null: this is the last one. */
  next: z.string().nullable(),
});
export type AuditPage = z.infer<typeof AuditPage>;
