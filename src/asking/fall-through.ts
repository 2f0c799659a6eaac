import type { Cause } from '../aliases/alias.ts';
import { type Failure, jsonOrText, RELEASE_REASONS } from '../protocol/index.ts';
import type { RequestAnswer, StepView, WaitingRequest } from '../queue/rpc.ts';
import type { Ended, Look, Outcome } from './outcome.ts';

/**
 * Returns which end of two steps a caller is told: the later one, unless that says no more than that nobody serves a
 * model, for which the caller did not ask. A worker that is away may come back; a model that is unknown need not.
 */
export function worthTelling<Answer>(before: Ended<Answer> | null, later: Ended<Answer>): Ended<Answer> {
  if (before === null || !isAbsent(later)) return later;
  return isAbsent(before) && before.reason === 'unknown_model' ? later : before;
}

type Absent = Extract<Outcome, { kind: 'refused' }> & { reason: 'no_worker' | 'unknown_model' };

function isAbsent<Answer>(outcome: Ended<Answer>): outcome is Absent {
  if (outcome.kind !== 'refused' || outcome.was_starting) return false;
  return outcome.reason === 'no_worker' || outcome.reason === 'unknown_model';
}

/**
 * Returns the step of an alias that a request leaves with this outcome, and why; null if it stays: it has an answer, it
 * named the model itself, or the alias does not go on for this. A limit of the caller's token, a request that is at
 * fault and a deadline that has passed are no reasons.
 */
export function fallOf<Answer>(outcome: Ended<Answer>): NonNullable<WaitingRequest['fell']> | null {
  if (outcome.kind !== 'failed' && outcome.kind !== 'refused') return null;
  const { step } = outcome;
  const cause = outcome.kind === 'failed' ? causeOfFailure(outcome.failure) : causeOfRefusal(outcome);
  return step !== undefined && cause !== null && step.causes.includes(cause)
    ? { from: step.index, cause }
    : null;
}

/** The words of engines about a prompt that is longer than they take. */
const TOO_LONG = /context_length_exceeded|context (?:length|size|window)|model length|prompt is too long/i;

/**
 * Returns what is wrong with the answer of an engine for which its alias has another step; null if the answer is passed
 * on. Of what engines say of a request that is at fault, only its length counts: another model may take more.
 */
export async function failureIn({ status, text }: Look, { causes }: StepView): Promise<Failure | null> {
  if (status >= 500 && causes.includes('failed'))
    return { message: `the engine answered ${status}`, code: 'engine_error', retryable: true };
  if ((status !== 400 && status !== 413) || !causes.includes('too_long')) return null;
  const said = await text();
  if (!TOO_LONG.test(said)) return null;
  const message = 'the request is longer than the model takes';
  return { message, code: 'too_long', retryable: false, http_status: status, body: jsonOrText(said) };
}

function causeOfFailure(failure: Failure): Cause | null {
  if (failure.code === 'too_long') return 'too_long';
  if (isRelease(failure)) return 'queue_full';
  return failure.retryable ? 'failed' : null;
}

function causeOfRefusal({ reason, was_starting }: Extract<RequestAnswer, { kind: 'refused' }>): Cause | null {
  switch (reason) {
    case 'no_worker':
    case 'unknown_model':
      return was_starting ? 'starting_over' : 'no_worker';
    case 'queue_full':
    case 'no_slot':
    case 'deadline':
      return 'queue_full';
    default:
      return null;
  }
}

/**
 * Says whether a failure is a release. A deadline that a worker cannot meet is a release, and retryable; a deadline
 * that passed is neither.
 */
export function isRelease(failure: Failure): boolean {
  return failure.retryable && (RELEASE_REASONS as readonly string[]).includes(failure.code);
}
