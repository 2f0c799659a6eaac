import * as z from 'zod';

/** The actions of people that the audit records. */
export const AUDIT_ACTIONS = [
  'token.create',
  'token.change',
  'token.rotate',
  'token.revoke',
  /** A person for whom an OpenID Connect issuer vouches was here for the first time, or is in another group now. */
  'person.join',
  'person.change',
  'fleet.apply',
  'fleet.remove',
  'pool.launch',
  'pool.drain',
  'pool.pause',
  'pool.resume',
  'pool.roll',
  /** Says that somebody sees to a problem of the attention list. */
  'attention.acknowledge',
  'alerts.mute',
  'alerts.unmute',
  'alerts.test',
  /** Makes the fleet forget a worker that is gone. */
  'worker.forget',
  /** Cancels another tenant's job; the next three actions also concern another tenant's job, batch or file. */
  'job.cancel',
  'job.retry',
  'batch.cancel',
  'file.delete',
  /** Cancels all stored jobs that match a filter. */
  'jobs.cancel',
  'jobs.retry',
  'queue.purge',
  /** Downloads the records of kept requests, or erases some; the target is whose, by tenant or id. */
  'kept_requests.read',
  'kept_requests.erase',
] as const;
export type AuditAction = (typeof AUDIT_ACTIONS)[number];

/**
 * The outcomes of an action. `begun`: the action was about to be done, and its end was not recorded, as when the queue
 * was killed in between: it may have been done. `begun` becomes one of the others, once. `refused`: nothing was
 * changed. `failed`: the action may have been done in part.
 */
const AUDIT_OUTCOMES = ['begun', 'done', 'refused', 'failed'] as const;
export type AuditOutcome = (typeof AUDIT_OUTCOMES)[number];

/**
 * One action of a person, as `GET /api/audit` lists it. Times are ISO. An entry never holds a token's value, a hash, a
 * prompt or an answer.
 */
export const AuditEntry = z.object({
  /** The entry's number, which rises with each entry. */
  seq: z.number().int(),
  at: z.string(),
  /** The name of the token; null if none was required, or if a token file or `TOKENS` changed. */
  actor: z.string().nullable(),
  /** The subject (`sub`) of the person who acted, as their OpenID Connect issuer names them; null: a token acted. */
  subject: z.string().nullable(),
  /** The tenant of the token. */
  tenant: z.string().nullable(),
  action: z.enum(AUDIT_ACTIONS),
  /**
   * The name or id of what was acted on: a token, a pool, a job, a batch, a file; for a fleet's file its queue, for all
   * jobs that match the filter, for a problem its id, for a mute
   * what it concerns, for a test post its receiver.
   */
  target: z.string(),
  /** The relevant part of the target as it was and as it became; null: there was nothing, or nothing is shown. */
  before: z.unknown(),
  after: z.unknown(),
  outcome: z.enum(AUDIT_OUTCOMES),
  /** The code of the error that the action was answered with. */
  error: z.string().nullable(),
  ended_at: z.string().nullable(),
  /**
   * The route, such as `POST /api/tokens`; `token file` if a token file, QUEUE_TOKENS or the secret TOKENS has changed.
   */
  route: z.string(),
  /** The queue that was asked; of tokens, which belong to all queues, the queue they were changed through. */
  queue_id: z.string(),
});
export type AuditEntry = z.infer<typeof AuditEntry>;

/** The answer of `GET /api/audit`, newest first. */
export const AuditPage = z.object({
  entries: z.array(AuditEntry),
  /** The cursor of the next page; null: this is the last one. */
  next: z.string().nullable(),
});
export type AuditPage = z.infer<typeof AuditPage>;
