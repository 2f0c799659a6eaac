import { brokenOf } from '../../asking/attempt-loop.ts';
import { isSettled, type JobView } from '../../protocol/index.ts';
import type { FollowedJob, ToldJob } from '../../queue/rpc.ts';
import { BEGINNING_DROPPED } from '../../relay/calls.ts';
import { errorResponse, HttpError } from '../errors.ts';
import { answerFromResult, failureResponse } from './respond.ts';

/** One call of the queue waits this many ms for news of the job. */
const WAIT_MS = 20_000;

export interface FollowParts {
  /** Returns the job, as soon as it is settled or has an attempt after `fence`; null where there is none. */
  follow(fence: number, waitMs: number): Promise<FollowedJob | null>;
  /** Returns the relay's response for the answer of one attempt; rejects when the signal fires. */
  openReplay(workerId: string, streamId: number, signal: AbortSignal): Promise<Response>;
  /** Returns a job with its result. */
  whole(job: ToldJob): Promise<JobView>;
  now(): number;
}

/**
 * Returns the answer of a stored job that streams: live while an attempt runs, from its beginning, and out of the
 * result once the job is settled. An attempt that breaks before it gave anything is followed by the next; two are
 * never mixed.
 * @throws HttpError 404, 409 where the job does not stream, 410 where the answer's beginning is not kept any more
 */
export async function followJob(jobId: string, signal: AbortSignal, parts: FollowParts): Promise<Response> {
  let followed = await news(jobId, 0, signal, parts);
  for (;;) {
    const { job, live } = followed;
    if (isSettled(job.state)) return await settledAnswer(job, parts);
    const leaveQueue = new AbortController();
    const leaveReplay = new AbortController();
    const next = news(jobId, job.fence_token, AbortSignal.any([signal, leaveQueue.signal]), parts);
    let first: Response | FollowedJob | null;
    try {
      first = await Promise.race([watch(live, AbortSignal.any([signal, leaveReplay.signal]), parts), next]);
    } catch (error) {
      leaveQueue.abort();
      throw error;
    }
    if (first instanceof Response) {
      leaveQueue.abort();
      return first;
    }
    // This attempt gives nothing more; another attempt follows, or the job's end.
    followed = first ?? (await next);
    leaveReplay.abort();
  }
}

/** @returns the job's news once it is settled or has an attempt after `fence` */
async function news(
  jobId: string,
  fence: number,
  signal: AbortSignal,
  { follow }: FollowParts,
): Promise<FollowedJob> {
  // The first call does not wait, so that a faulty request is refused at once.
  for (let waitMs = 0; ; waitMs = WAIT_MS) {
    const followed = await follow(fence, waitMs);
    if (followed === null) throw new HttpError(404, `No job has the id "${jobId}".`, 'job_not_found');
    const { job } = followed;
    if (!job.stream) {
      const message = `Job "${jobId}" was not submitted with "stream": true. GET /api/jobs/${jobId}?wait=60 answers its result.`;
      throw new HttpError(409, message, 'not_streamed');
    }
    if (isSettled(job.state) || (job.state === 'leased' && job.fence_token > fence)) return followed;
    if (signal.aborted) throw new HttpError(499, 'The caller hung up.', 'caller_gone');
  }
}

/** @returns the attempt's answer; null where the attempt broke before it gave anything, or where its relay is gone */
async function watch(
  live: FollowedJob['live'],
  signal: AbortSignal,
  { openReplay }: FollowParts,
): Promise<Response | null> {
  if (live === null) return null;
  let response: Response;
  try {
    response = await openReplay(live.worker_id, live.stream_id, signal);
  } catch {
    return null;
  }
  const broken = brokenOf(response);
  if (broken === null) return new Response(response.body, response);
  const { code, message } = broken;
  if (code === BEGINNING_DROPPED) throw new HttpError(410, `${message}.`, code);
  return null;
}

async function settledAnswer(job: ToldJob, parts: FollowParts): Promise<Response> {
  if (job.state !== 'succeeded') {
    const failure = job.error ?? { message: `the job is ${job.state}`, code: job.state, retryable: false };
    return failureResponse(failure, job.attempts);
  }
  const result = (await parts.whole(job)).result as Record<string, unknown>;
  const facts = { model: null, stream: true, includeUsage: false };
  const answer = answerFromResult(result, facts, Math.floor(parts.now() / 1000));
  if (answer) return answer;
  const message = 'The result of the job is no answer of an engine.';
  return errorResponse(new HttpError(502, message, 'worker_error'));
}
