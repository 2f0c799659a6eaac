import { withTarget } from '../../aliases/rename.ts';
import { QUEUE_HOME } from '../../protocol/index.ts';
import { emit } from '../events/projection.ts';
import type { WaitingJob } from '../job.ts';
import {
  bytesOf,
  extrasOf,
  isUnserved,
  type RequestAnswer,
  type Unserved,
  type WaitingRequest,
} from '../rpc.ts';
import { costOfModel, isNamed } from '../state/pools.ts';
import type { Core } from '../state/state.ts';
import { jobAlias, resolve, type TakenStep } from '../state/steps.ts';
import { ambiguous, reject } from '../waiting.ts';

/** The answer to a request that arrives after its caller hung up: nobody reads it. */
const CANCELLED = {
  kind: 'refused',
  reason: 'cancelled',
  message: 'cancelled by the caller',
  retry_after_seconds: 0,
} as const;

/**
 * Accepts a job whose caller waits: the dispatch pass that follows finds it a slot, or `waitOrReject` decides what
 * becomes of it.
 */
export function request(
  core: Core,
  asked: WaitingRequest,
  answer: (answer: RequestAnswer | Unserved) => void,
): void {
  if (core.requests.isCallerGone(asked.job_id)) return answer(CANCELLED);
  const resolved = resolve(core, asked, asked.job_id);
  if (isUnserved(resolved)) return answer(resolved);
  const { model, choice, step } = resolved;
  if (choice.kind === 'pool' && choice.start) core.starts.add(choice.start);
  if (choice.kind === 'ambiguous') return answer(ambiguous(choice.models));
  const configId = choice.kind === 'pool' ? choice.config_id : null;
  const now = core.now();
  // If the request is from before a restart, the attempt that its worker goes on with is part of the same request.
  const wasResumed = core.admission.earlier.ended(asked.job_id);
  const replaced = takeOver(core, asked.job_id);
  const undecided = replaced ? null : core.requests.takeUndecided(asked.job_id);
  // The room that these held is free since this moment, so nobody else has it.
  const isAdmitted = wasResumed || replaced?.held === null;
  // An error or a release that the gateway does not pass on has ended the job here, but not the request.
  const isTriedAgain = undecided !== null || (asked.earlier?.attempts ?? 0) > 0;
  core.admission.book.report(asked);
  const endMs = Math.min(
    asked.deadline_ms ?? Number.POSITIVE_INFINITY,
    asked.limit_ms ?? Number.POSITIVE_INFINITY,
  );
  const movedAt = now - (asked.earlier?.elapsed_ms ?? 0);
  const slotWait = Math.max(asked.wait_for_slot_ms, asked.wait_for_worker_ms);
  // Nothing is spread into the job: that took a third of the queue's time for a request (measured).
  const job: WaitingJob = {
    mode: 'waiting',
    state: 'pending',
    attempts: 0,
    attempt_errors: '[]',
    fence_token: 0,
    worker_id: null,
    leased_at: null,
    lease_expires_at: null,
    id: asked.job_id,
    request_id: asked.request_id ?? null,
    job_type: asked.job_type,
    route: asked.route ?? asked.job_type,
    payload: payloadFor(asked, step),
    model: isNamed(model) ? model : configId,
    config_id: configId ?? '',
    tenant: asked.tenant ?? null,
    token_name: asked.token_name ?? null,
    priority: asked.priority,
    max_attempts: 1,
    created_at: now,
    submitted_at: (replaced ?? undecided)?.submitted_at ?? now,
    deadline_at: asked.deadline_ms === undefined ? null : now + asked.deadline_ms,
    limit_at: asked.limit_ms === undefined ? null : now + asked.limit_ms,
    worker_by: now + Math.min(endMs, asked.wait_for_worker_ms),
    slot_by: now + Math.min(endMs, slotWait),
    waits_for_start: asked.waits_for_start ?? false,
    start_by: step?.starting_ms == null ? null : now + step.starting_ms,
    has_room: false,
    is_repeat: replaced !== null || undecided !== null,
    extras: extrasOf(
      asked,
      asked.limits ? costOfModel(core, model, asked.cost, configId) : null,
      jobAlias(step),
    ),
    held: null,
    admitted_at: replaced?.held === null ? replaced.admitted_at : null,
    is_counted: isTriedAgain,
    passed_over: 0,
    file_key: null,
    older: replaced && attemptOf(replaced),
    earlier: asked.earlier ?? null,
    failed_at: [...(asked.earlier?.failed_at ?? []), ...(asked.moved ? [asked.moved.worker_id] : [])],
    made_by: asked.moved
      ? { worker_id: asked.moved.worker_id, model_identity: asked.moved.model_identity }
      : null,
    begun: asked.moved ? begunAt(asked.moved, movedAt) : null,
    home: asked.home ?? QUEUE_HOME,
    reply: (said) => answer(withHeaders(core, job, step === null ? said : withStep(said, step))),
  };
  const kept = asked.moved?.kept ?? 0;
  emit(core, job, 'submitted', job.request_id && `request ${job.request_id}`, { kept, replaced });
  const verdict = isAdmitted ? core.admission.readmit(job) : core.admission.admit(job);
  core.waiting.add(job);
  if (asked.moved) tellMove(core, job, asked.moved, movedAt);
  if (verdict.kind === 'refused') reject(core, job, verdict);
}

/** Returns the payload as the worker gets it: its body names the model, not an alias of it. */
function payloadFor({ job_type, payload }: WaitingRequest, step: TakenStep | null): WaitingJob['payload'] {
  const bytes = bytesOf(payload);
  return step === null ? bytes : withTarget(job_type, bytes, step.alias, step.model);
}

/** Adds which step of the alias the request went to, and the headers that tell its caller. */
function withStep(answer: RequestAnswer, { index, model, causes, fell }: TakenStep): RequestAnswer {
  const step = { index, model, causes };
  if (answer.kind === 'error' || answer.kind === 'refused') return { ...answer, step };
  const headers = { 'x-served-model': headerText(model), ...(fell !== null && { 'x-fallback': fell }) };
  return { ...answer, step, headers };
}

/** Returns a name as a header may carry it. */
function headerText(name: string): string {
  return /^[\x21-\x7e]+$/.test(name) ? name : encodeURIComponent(name);
}

function tellMove(
  core: Core,
  job: WaitingJob,
  moved: NonNullable<WaitingRequest['moved']>,
  at: number,
): void {
  const { worker_id, tokens, why, newest_first_token_ms_ago: ago } = moved;
  const firstTokenAt = ago === null ? null : at - ago;
  emit(core, job, 'moved', `from ${worker_id} at token ${tokens}: ${why}`, { firstTokenAt });
}

function begunAt(
  { given_ms_ago, first_token_ms_ago }: NonNullable<WaitingRequest['moved']>,
  movedAt: number,
): WaitingJob['begun'] {
  return { given_at: movedAt - given_ms_ago, first_token_at: movedAt - first_token_ms_ago };
}

/** Removes the job's earlier request, which the gateway asks again, and returns it; null if there is none. */
function takeOver(core: Core, jobId: string): WaitingJob | null {
  const before = core.waiting.find(jobId);
  if (before) core.waiting.remove(before);
  return before;
}

/**
 * Returns the attempt at an earlier request that a worker may still run: the gateway asks again only after it has lost
 * that attempt's answer.
 */
function attemptOf({ worker_id, fence_token, older }: WaitingJob): WaitingJob['older'] {
  return worker_id === null ? older : { worker_id, fence_token };
}

/** Adds the headers that tell a caller how far it is from its limits. */
function withHeaders(core: Core, job: WaitingJob, answer: RequestAnswer): RequestAnswer {
  if (answer.kind === 'error' || answer.kind === 'refused') return answer;
  const headers = core.admission.headersOf(job);
  return headers === null ? answer : { ...answer, headers: { ...answer.headers, ...headers } };
}
