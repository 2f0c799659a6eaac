import type { AuditEnd } from '../fleet/rpc.ts';
import type { AuditAction } from '../protocol/index.ts';
import { DEFAULT_QUEUE } from '../settings/queue-settings.ts';
import { tenantOf, viewerOf } from './auth/authorize.ts';
import { HttpError } from './errors.ts';
import { log } from './log.ts';
import { callFleet, callQueue } from './objects/calls.ts';
import { queueIdOf } from './objects/ids.ts';
import type { GatewayContext } from './routes/route.ts';

/** An action of a person, before it is done. */
export interface AuditedAction {
  action: AuditAction;
  /** The name or id of the action's object. */
  target: string;
  /** The object's state before the action; left out where there is none, or where it is not recorded. */
  before?: unknown;
}

/**
 * Does what a person requested and records it: first that it is about to be done, so that nothing is done unrecorded,
 * then its outcome. No token, hash, prompt or answer goes into `before` and `after`.
 * @param after takes the object's state after the action from the answer of `act`; left out where there is none, or
 * where it is not recorded
 * @throws HttpError 503 where the action cannot be recorded, and then it is not done; else what `act` throws
 */
export async function audited<T>(
  context: GatewayContext,
  { action, target, before = null }: AuditedAction,
  act: () => Promise<T>,
  after: (answer: T) => unknown = () => null,
): Promise<T> {
  const { env, req } = context;
  const token = context.get('token');
  const id = crypto.randomUUID();
  const entry = {
    id,
    actor: token?.name ?? null,
    subject: token?.oidc?.subject ?? null,
    tenant: tenantOf(token),
    action,
    target,
    before,
    route: `${req.method} ${req.path}`,
    queue_id: queueIdOf(env, req.raw),
  };
  await callFleet(env, DEFAULT_QUEUE, (fleet) => fleet.beginAudit(entry));
  // The action is done by now: the caller gets its answer even if the end cannot be recorded.
  const end = (ended: AuditEnd) =>
    callFleet(env, DEFAULT_QUEUE, (fleet) => fleet.endAudit(id, ended)).catch((error) => {
      const msg = `the audit does not know how ${action} of ${JSON.stringify(target)} ended`;
      log('warn', msg, { error: String(error) });
    });
  let answer: T;
  try {
    answer = await act();
  } catch (error) {
    const { status, code } = error instanceof HttpError ? error : { status: 500, code: null };
    await end({ outcome: status < 500 ? 'refused' : 'failed', after: null, error: code });
    throw error;
  }
  await end({ outcome: 'done', after: after(answer), error: null });
  return answer;
}

/**
 * Does an action on a tenant's property, and records it as `audited` does, only where that tenant is not the caller's
 * own.
 * @param owner the property's tenant; null where nobody owns it, since it is from when no tokens were configured
 */
export function auditedOfOthers<T>(
  context: GatewayContext,
  owner: string | null,
  entry: AuditedAction,
  act: () => Promise<T>,
  after?: (answer: T) => unknown,
): Promise<T> {
  const token = context.get('token');
  if (token === null || owner === tenantOf(token)) return act();
  return audited(context, { ...entry, before: { tenant: owner, ...(entry.before as object) } }, act, after);
}

/** Returns the `after` of a job that was cancelled or is tried again. */
export function stateAfter(job: { state: string } | null): unknown {
  return job && { state: job.state };
}

/**
 * Does an action on a job as `auditedOfOthers` does; the queue reports the job's tenant. Only a token that sees
 * everybody's jobs can act on another tenant's.
 */
export async function auditedOfJob<T>(
  context: GatewayContext,
  action: 'job.cancel' | 'job.retry',
  id: string,
  act: () => Promise<T>,
  after?: (answer: T) => unknown,
): Promise<T> {
  const token = context.get('token');
  if (token === null || viewerOf(token) !== null) return act();
  const queueId = queueIdOf(context.env, context.req.raw);
  const found = await callQueue(context.env, queueId, (queue) => queue.ownerOf(id));
  if (found === null) return act();
  const { tenant, ...before } = found;
  return auditedOfOthers(context, tenant, { action, target: id, before }, act, after);
}
