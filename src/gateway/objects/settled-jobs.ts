import type { SettledJobs } from '../../asking/settled-jobs.ts';
import { type JobView, JsonFault, keepTree } from '../../protocol/index.ts';
import type { ToldJob } from '../../queue/rpc.ts';
import type { Env } from '../env.ts';
import { HttpError } from '../errors.ts';
import { answerFromResult } from '../inference/respond.ts';
import { RESULT_LEVELS, wholeJob, withoutResult } from '../jobs/job-files.ts';
import { callQueue } from './calls.ts';

/** Returns these calls of a queue. @param listener the name of the one listener that the object is */
export function settledJobs(env: Env, queueId: string, listener: string): SettledJobs {
  return {
    listenAnew: () =>
      callQueue(env, queueId, async (queue) => {
        await queue.leaveListener(listener);
        // The queue answers the first call by saying that it does not know the listener.
        await queue.nextSettled(listener, 0);
      }),
    listen: (ids) => callQueue(env, queueId, (queue) => queue.listen(listener, ids, null)),
    nextSettled: async (waitMs) => {
      const settled = await callQueue(env, queueId, (queue) => queue.nextSettled(listener, waitMs));
      if (settled.listener !== 'known') return null;
      const read = await Promise.allSettled(settled.jobs.map(({ view }) => whole(env, queueId, view)));
      const jobs = read.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
      const unread = settled.jobs.filter((_, at) => read[at]!.status === 'rejected').map(({ id }) => id);
      if (unread.length === 0) return jobs;
      // The next question brings them again, behind the others.
      await callQueue(env, queueId, (queue) => queue.listen(listener, unread, null));
      if (jobs.length === 0) throw (read[0] as PromiseRejectedResult).reason;
      return jobs;
    },
  };
}

/** Returns a job with its result, which it reads separately where it is too long for the list. */
async function whole(env: Env, queueId: string, text: string): Promise<JobView> {
  const view = JSON.parse(text) as JobView & { has_long_result?: boolean };
  keepTree(view, new TextEncoder().encode(text), 1 + RESULT_LEVELS);
  if (!view.has_long_result) return await withResponse(view);
  const job = await callQueue(env, queueId, (queue) => queue.get(view.id, null));
  return job === null ? view : await readJob(env, queueId, job);
}

/**
 * Returns a job with its result. One whose result will never be read, since its file is gone or broken, is shown as
 * failed: whoever waits for it would wait for ever.
 * @throws HttpError where the file cannot be read at the moment
 */
export async function readJob(env: Env, queueId: string, told: ToldJob): Promise<JobView> {
  try {
    return await withResponse(await wholeJob(env, queueId, told));
  } catch (error) {
    const isGone = error instanceof HttpError && error.status === 404;
    if (!isGone && !(error instanceof JsonFault)) throw error;
    const message = `The result of the job is lost: its file is ${isGone ? 'gone' : 'broken'}. Ask again.`;
    return {
      ...withoutResult(told),
      state: 'failed',
      error: { message, code: 'result_lost', retryable: false },
    };
  }
}

/** Turns what a base worker reports into an answer of its engine, as for other callers. */
async function withResponse(job: JobView): Promise<JobView> {
  const result = job.result as Record<string, unknown> | null;
  if (result === null || result.response !== undefined) return job;
  const facts = { stream: false, includeUsage: false, model: null };
  const answer = answerFromResult(result, facts, Math.floor(Date.parse(job.settled_at ?? '') / 1000));
  if (!answer?.headers.get('content-type')?.startsWith('application/json')) return job;
  return { ...job, result: { response: { status: answer.status, body: await answer.json() } } };
}
