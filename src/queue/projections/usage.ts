import {
  type AckOutcome,
  type JobError,
  type JobResult,
  type JobResultRef,
  jsonOrText,
  Usage,
} from '../../protocol/index.ts';
import type { Claim } from '../attempts/claim.ts';
import type { UsageAmounts } from '../rpc.ts';
import type { EndedBy, Ending, Job, WaitingJob } from '../state/job.ts';
import type { Core } from '../state/state.ts';
import type { Worker } from '../state/worker.ts';
import { keyOf, onlyModel } from './account.ts';
import { chargeOf, settleCharge } from './charge.ts';
import { takeSlotTime, takeSlotTimeOf } from './slot-time.ts';
import type { Cancelled } from './usage-book.ts';

/**
 * Counts what attempts use (docs/usage.md):
 *
 * | what happens to an attempt                                 | requests, and as what          | tokens             |
 * | ---------------------------------------------------------- | ------------------------------ | ------------------ |
 * | it ends its job: succeeded, or its caller hung up          | one: succeeded, or cancelled   | input and output   |
 * | it runs when its job is cancelled                          | one: cancelled                 | output generated so far; the rest when its worker reports it |
 * | it runs when the deadline of its job passes                | one: failed                    | as in the row above |
 * | it ends its job otherwise                                  | one: failed                    | wasted             |
 * | it fails and another follows, or it was given up before    | none                           | wasted             |
 * | its end is reported again                                  | none                           | none               |
 * | its request ends and the gateway requests it again         | the count is taken back        | wasted             |
 * | its answer is moved, or a stored job goes on from it       | as in the two rows above       | wasted, except what its caller, or the job's row, has |
 *
 * The time that an attempt held its slot is counted whenever it ends (slot-time.ts).
 */

type Settlement = JobResult | JobResultRef | JobError;

/** Counts the end of a job, in the commit that ends it or, for a waiting job, in the next one. */
export function countEnd(core: Core, job: Job, ending: Ending, by: EndedBy, usage: Usage | undefined): void {
  const as = endOf(ending);
  const isCallers = isEndedByCaller(as, ending.error?.code);
  const cancelled = isCallers && by !== 'worker' ? cancelledNow(core, job) : null;
  const known = usage ?? (cancelled === null ? undefined : usageSoFar(cancelled));
  const amounts = { ...amountsOf(as, known, job.state === 'leased', isCallers), ...takeSlotTime(core, job) };
  const entry = { key: keyOf(core, job, usage), amounts, job_id: job.id };
  if (job.mode === 'stored') {
    core.usage.add(entry);
    if (cancelled !== null) giveUp(core, job, cancelled);
    return;
  }
  core.usage.gather(entry, by === 'worker' ? job.fence_token : null);
  if (as !== 'cancelled') core.requests.counted(job.id, entry);
  if (by !== 'worker') countGivenUp(core, job, cancelled);
}

/** Returns what is known of the running attempt that is cancelled; null if no worker runs the job. */
function cancelledNow(core: Core, job: Job): Cancelled | null {
  if (job.state !== 'leased') return null;
  const charge = chargeOf(core, job);
  return { told: charge?.seen ?? 0, charge };
}

function usageSoFar({ told }: Cancelled): Usage {
  return { prompt_tokens: 0, completion_tokens: told, estimated: true };
}

/** Reads the usage that a base worker reports within the result of a chat. */
export function usageIn(result: Record<string, unknown> | null): Usage | undefined {
  const { usage, model } = Object(result?.completion) as { usage?: unknown; model?: unknown };
  if (usage === undefined) return undefined;
  const told = Usage.safeParse({ ...Object(usage), ...(typeof model === 'string' && { model }) });
  return told.success ? told.data : undefined;
}

/** Counts how long an attempt held its slot if the attempt ends without ending its job. */
export function countSlotTime(core: Core, job: Job): void {
  const amounts = takeSlotTime(core, job);
  if (!amounts.slot_ms) return;
  core.usage.gather({ key: keyOf(core, job, undefined), amounts }, null);
  // The command of a stored job has a commit, so the count is written with it.
  if (job.mode === 'stored') core.usage.write();
}

/** Counts an attempt that still runs when its waiting job ends or the gateway requests the job anew. */
export function countGivenUp(core: Core, job: WaitingJob, cancelled: Cancelled | null = null): void {
  countSlotTime(core, job);
  giveUp(core, job, cancelled);
}

function giveUp(core: Core, job: Job, cancelled: Cancelled | null): void {
  if (job.state !== 'leased') return;
  core.usage.giveUp(job.fence_token, job.id, keyOf(core, job, undefined), cancelled);
}

/** Counts the usage that a settlement reports without ending a job. */
export function countAside(
  core: Core,
  worker: Worker,
  job: Job | null,
  claim: Claim,
  outcome: AckOutcome,
  frame: Settlement,
): void {
  const { fence_token, usage } = frame;
  const givenUp = core.usage.takeGivenUp(fence_token);
  if (givenUp !== null) {
    const key = usage?.model === undefined ? givenUp.key : { ...givenUp.key, model: usage.model };
    const { cancelled, kept } = givenUp;
    const amounts =
      cancelled === null
        ? { wasted: Math.max(0, tokensOf(usage) - kept) }
        : restOfCancelled(core, cancelled, usage);
    core.usage.gather({ key, amounts }, fence_token);
  } else if (claim === 'unknown' && outcome === 'accepted') countUnknown(core, worker, frame);
  else if (
    job !== null &&
    isOwnAttempt(job, worker, fence_token) &&
    (claim === 'stale' || claim === 'lapsed')
  )
    countWasted(core, job, fence_token, usage);
}

/** Returns what the worker's last frame adds for a cancelled attempt, whose request was counted already. */
function restOfCancelled(
  core: Core,
  { told, charge }: Cancelled,
  usage: Usage | undefined,
): Partial<UsageAmounts> {
  if (usage === undefined) return {};
  if (charge !== null) settleCharge(core, charge, usage);
  const tokens = tokenAmounts(usage);
  return { ...tokens, output: Math.max(0, tokens.output - told) };
}

/** Says whether the attempt may be this worker's: a worker cannot report another worker's newest attempt. */
function isOwnAttempt(job: Job, { session }: Worker, fence: number): boolean {
  return fence < job.fence_token || job.worker_id === session.worker_id;
}

/** Counts as wasted the tokens of an attempt that no caller gets, except those from which the next attempt goes on. */
export function countWasted(core: Core, job: Job, fence: number, usage: Usage | undefined): void {
  if (usage === undefined || core.usage.isCounted(fence)) return;
  const wasted = Math.max(0, tokensOf(usage) - core.usage.keptOf(fence));
  core.usage.gather({ key: keyOf(core, job, usage), amounts: { wasted } }, fence);
  // The command of a stored job has a commit, so the count is written with it.
  if (job.mode === 'stored') core.usage.write();
}

/** Counts the settlement of a request from before the queue restarted, about which only the worker knows. */
function countUnknown(core: Core, worker: Worker, frame: Settlement): void {
  const { fence_token, usage, account } = frame;
  if (core.usage.isCounted(fence_token)) return;
  const [tenant = '', token_name = ''] = accountIn(account);
  const model = usage?.model ?? onlyModel(worker) ?? '';
  const key = { tenant, token_name, config_id: worker.session.config_id, model, mode: 'waiting' };
  // If the gateway has requested the job again since the restart, the newer attempt counts as the request.
  const isOlder = core.requests.steps(frame.job_id) !== null || core.requests.wasCounted(frame.job_id);
  const as = endToldBy(frame);
  const isCallers = isEndedByCaller(as, frame.type === 'job_error' ? frame.code : undefined);
  const used = isOlder ? { wasted: tokensOf(usage) } : amountsOf(as, usage, true, isCallers);
  const { job_id } = frame;
  const entry = { key, amounts: { ...used, ...takeSlotTimeOf(core, worker, fence_token) }, job_id };
  core.usage.gather(entry, fence_token);
  if (!isOlder && as !== 'cancelled') core.requests.counted(frame.job_id, entry);
}

/** Returns the account that a job's frame carries so that `countUnknown` gets it back; null if it needs none. */
export function accountOf(job: Job): string | null {
  const { mode, tenant, token_name } = job;
  if (mode === 'stored' || tenant === null) return null;
  const { let_in_at, leased_at } = job;
  const { cost } = job.extras;
  const given = [tenant, token_name ?? '', leased_at];
  return JSON.stringify(cost === undefined ? given : [...given, let_in_at, cost.tokens, cost.model]);
}

function accountIn(account: string | undefined): string[] {
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

/**
 * Restores the part of its token's limits that a request from before the queue restarted still holds, since its worker
 * goes on with it.
 */
export function resumeLimits(core: Core, worker: Worker, jobId: string, account: string | undefined): void {
  const [tenant, token_name, , letInAt, tokens, model] = partsOf(account);
  if (
    typeof tenant !== 'string' ||
    typeof token_name !== 'string' ||
    typeof letInAt !== 'number' ||
    typeof tokens !== 'number'
  )
    return;
  const { worker_id, config_id } = worker.session;
  const cost = { model: typeof model === 'string' ? model : null, tokens };
  core.limits.resume({ id: jobId, tenant, token_name, config_id, extras: { cost } }, letInAt, worker_id);
}

function partsOf(account: string | undefined): unknown[] {
  const parts = account === undefined ? [] : jsonOrText(account);
  return Array.isArray(parts) ? parts : [];
}

type CountedAs = 'succeeded' | 'failed' | 'cancelled';

/**
 * Returns how a job's end is counted. If the relay reports first that the caller hung up, the attempt has failed with
 * the code `cancelled`.
 */
function endOf({ state, error, result }: Ending): CountedAs {
  if (state === 'succeeded') return isRefusal(result) ? 'failed' : 'succeeded';
  if (state === 'cancelled') return state;
  return error?.code === 'cancelled' ? 'cancelled' : 'failed';
}

function endToldBy(frame: Settlement): CountedAs {
  if (frame.type === 'job_error') return frame.code === 'cancelled' ? 'cancelled' : 'failed';
  return frame.type === 'job_result' && isRefusal(frame.result) ? 'failed' : 'succeeded';
}

/**
 * Says whether the caller ended the job or set the deadline that did: then the tokens generated so far are used, not
 * wasted.
 */
function isEndedByCaller(as: CountedAs, code: string | undefined): boolean {
  return as === 'cancelled' || code === 'deadline';
}

/** Says whether a result is an error of the engine, as an answer that a relay carried may be. */
function isRefusal(result: Record<string, unknown> | null): boolean {
  return Number(result?.http_status ?? 0) >= 400;
}

/**
 * Returns the request and tokens that an ended job counts as.
 * @param ran whether the attempt may have used something that was not reported
 * @param isCallers whether the caller ended the job, or its deadline did
 */
function amountsOf(
  as: CountedAs,
  usage: Usage | undefined,
  ran: boolean,
  isCallers: boolean,
): Partial<UsageAmounts> {
  const request = { requests: 1, [as]: 1 };
  if (usage === undefined) return { ...request, estimated_requests: isCallers && ran ? 1 : 0 };
  if (as === 'failed' && !isCallers) return { ...request, wasted: tokensOf(usage) };
  return { ...request, ...tokenAmounts(usage), estimated_requests: usage.estimated ? 1 : 0 };
}

function tokenAmounts(usage: Usage) {
  const { prompt_tokens: input, completion_tokens: output } = usage;
  return {
    input,
    output,
    cached: Math.min(usage.cached_tokens ?? 0, input),
    reasoning: Math.min(usage.reasoning_tokens ?? 0, output),
  };
}

function tokensOf(usage: Usage | undefined): number {
  return usage === undefined ? 0 : usage.prompt_tokens + usage.completion_tokens;
}
