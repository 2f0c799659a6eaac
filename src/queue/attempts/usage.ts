import {
  type AckOutcome,
  type JobError,
  type JobResult,
  type JobResultRef,
  jsonOrText,
  Usage,
} from '../../protocol/index.ts';
import type { UsageAmounts } from '../rpc.ts';
import { keyOf, onlyModel } from '../state/account.ts';
import type { EndedBy, Ending, Job, WaitingJob } from '../state/job.ts';
import type { Core } from '../state/state.ts';
import type { Cancelled } from '../state/usage-book.ts';
import type { Worker } from '../state/worker.ts';
import { chargeOf, settleCharge } from './charge.ts';
import type { Claim } from './claim.ts';
import { takeSlotTime, takeSlotTimeOf } from './slot-time.ts';

/**
 * What is counted when (docs/usage.md):
 *
 * | what happens to an attempt                                 | requests, and as what          | tokens             |
 * | ---------------------------------------------------------- | ------------------------------ | ------------------ |
 * | it ends its job: succeeded, or its caller hung up          | one: succeeded, or cancelled   | input and output   |
 * | it runs when its job is cancelled                          | one: cancelled                 | output that had come; the rest when its worker tells |
 * | it runs when the deadline of its job passes                | one: failed                    | as in the rows above |
 * | it ends its job otherwise                                  | one: failed                    | wasted             |
 * | it fails and another follows, or it was given up before    | none                           | wasted             |
 * | the same is told again                                     | none                           | none               |
 * | a request ends and its gateway asks again                  | that is taken back             | wasted             |
 * | its answer is moved, or a stored job goes on from it       | as in the two rows above       | wasted, but for what its caller, or the job's row, has |
 *
 * The time that an attempt held its slot is counted whenever it ends (slot-time.ts).
 */

type Settlement = JobResult | JobResultRef | JobError;

/** Counts the end of a job: in the commit that ends it, or for a waiting job in the next one. */
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

/** Null: no worker runs it. */
function cancelledNow(core: Core, job: Job): Cancelled | null {
  if (job.state !== 'leased') return null;
  const charge = chargeOf(core, job);
  return { told: charge?.seen ?? 0, charge };
}

function usageSoFar({ told }: Cancelled): Usage {
  return { prompt_tokens: 0, completion_tokens: told, estimated: true };
}

/** The usage that a base worker reports, within the result of a chat. */
export function usageIn(result: Record<string, unknown> | null): Usage | undefined {
  const { usage, model } = Object(result?.completion) as { usage?: unknown; model?: unknown };
  if (usage === undefined) return undefined;
  const told = Usage.safeParse({ ...Object(usage), ...(typeof model === 'string' && { model }) });
  return told.success ? told.data : undefined;
}

/** Counts how long an attempt held its slot, where the attempt ends without ending its job. */
export function countSlotTime(core: Core, job: Job): void {
  const amounts = takeSlotTime(core, job);
  if (!amounts.slot_ms) return;
  core.usage.gather({ key: keyOf(core, job, undefined), amounts }, null);
  // A stored job's command has a commit.
  if (job.mode === 'stored') core.usage.write();
}

/** A waiting job ends, or the gateway asks for it anew, while an attempt at it runs. */
export function countGivenUp(core: Core, job: WaitingJob, cancelled: Cancelled | null = null): void {
  countSlotTime(core, job);
  giveUp(core, job, cancelled);
}

function giveUp(core: Core, job: Job, cancelled: Cancelled | null): void {
  if (job.state !== 'leased') return;
  core.usage.giveUp(job.fence_token, job.id, keyOf(core, job, undefined), cancelled);
}

/** Counts a settlement that ends no job. */
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

/** What is counted with the last word of its worker, its request being counted. */
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

/** A worker cannot report another worker's newest attempt. */
function isOwnAttempt(job: Job, { session }: Worker, fence: number): boolean {
  return fence < job.fence_token || job.worker_id === session.worker_id;
}

/** An attempt whose tokens no caller gets, but for those that the next one goes on from. */
export function countWasted(core: Core, job: Job, fence: number, usage: Usage | undefined): void {
  if (usage === undefined || core.usage.isCounted(fence)) return;
  const wasted = Math.max(0, tokensOf(usage) - core.usage.keptOf(fence));
  core.usage.gather({ key: keyOf(core, job, usage), amounts: { wasted } }, fence);
  // A stored job's command has a commit.
  if (job.mode === 'stored') core.usage.write();
}

/** Counts the settlement of a request from before the queue restarted, of which only the worker knows. */
function countUnknown(core: Core, worker: Worker, frame: Settlement): void {
  const { fence_token, usage, account } = frame;
  if (core.usage.isCounted(fence_token)) return;
  const [tenant = '', token_name = ''] = accountIn(account);
  const model = usage?.model ?? onlyModel(worker) ?? '';
  const key = { tenant, token_name, config_id: worker.session.config_id, model, mode: 'waiting' };
  // Where the gateway has asked again since the restart, the newer attempt is the one that counts as the request.
  const isOlder = core.requests.steps(frame.job_id) !== null || core.requests.wasCounted(frame.job_id);
  const as = endToldBy(frame);
  const isCallers = isEndedByCaller(as, frame.type === 'job_error' ? frame.code : undefined);
  const used = isOlder ? { wasted: tokensOf(usage) } : amountsOf(as, usage, true, isCallers);
  const { job_id } = frame;
  const entry = { key, amounts: { ...used, ...takeSlotTimeOf(core, worker, fence_token) }, job_id };
  core.usage.gather(entry, fence_token);
  if (!isOlder && as !== 'cancelled') core.requests.counted(frame.job_id, entry);
}

/** What a job's frame says for `countUnknown`; null: nothing has to be said. */
export function accountOf(job: Job): string | null {
  const { mode, tenant, token_name } = job;
  if (mode === 'stored' || tenant === null) return null;
  const { cost, let_in_at, leased_at } = job;
  const given = [tenant, token_name ?? '', leased_at];
  return JSON.stringify(cost === null ? given : [...given, let_in_at, cost.tokens, cost.model]);
}

function accountIn(account: string | undefined): string[] {
  return partsOf(account).map((name) => String(name).slice(0, 256));
}

/** Epoch ms at which its worker was given a request of before the queue's restart; null: that is not known. */
export function givenAt(account: string | undefined): number | null {
  const at = partsOf(account)[2];
  return typeof at === 'number' ? at : null;
}

/**
 * A worker goes on with a request from before the queue restarted: the request still holds its part of its token's
 * limits.
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
  core.limits.resume({ id: jobId, tenant, token_name, config_id, cost }, letInAt, worker_id);
}

function partsOf(account: string | undefined): unknown[] {
  const parts = account === undefined ? [] : jsonOrText(account);
  return Array.isArray(parts) ? parts : [];
}

type CountedAs = 'succeeded' | 'failed' | 'cancelled';

/** Where the relay reports first that the caller hung up, the attempt has failed. */
function endOf({ state, error, result }: Ending): CountedAs {
  if (state === 'succeeded') return isRefusal(result) ? 'failed' : 'succeeded';
  if (state === 'cancelled') return state;
  return error?.code === 'cancelled' ? 'cancelled' : 'failed';
}

function endToldBy(frame: Settlement): CountedAs {
  if (frame.type === 'job_error') return frame.code === 'cancelled' ? 'cancelled' : 'failed';
  return frame.type === 'job_result' && isRefusal(frame.result) ? 'failed' : 'succeeded';
}

/** Its caller ended it, or set the deadline that did: what had come until then is used, and not wasted. */
function isEndedByCaller(as: CountedAs, code: string | undefined): boolean {
  return as === 'cancelled' || code === 'deadline';
}

/** An answer that a relay carried may be an error of the engine. */
function isRefusal(result: Record<string, unknown> | null): boolean {
  return Number(result?.http_status ?? 0) >= 400;
}

/** @param ran whether the attempt may have used something that was not told */
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
