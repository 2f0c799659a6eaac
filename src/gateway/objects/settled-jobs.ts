import type { SettledJobs } from '../../asking/settled-jobs.ts';
import { type JobView, keepTree } from '../../protocol/index.ts';
import type { Env } from '../env.ts';
import { answerFromResult } from '../inference/respond.ts';
import { RESULT_LEVELS, wholeJob } from '../jobs/job-files.ts';
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
      return await Promise.all(settled.jobs.map(({ view }) => whole(env, queueId, view)));
    },
  };
}

/** Returns a job with its result, which it reads separately where it is too long for the list. */
async function whole(env: Env, queueId: string, text: string): Promise<JobView> {
  const view = JSON.parse(text) as JobView & { has_long_result?: boolean };
  keepTree(view, new TextEncoder().encode(text), 1 + RESULT_LEVELS);
  if (!view.has_long_result) return await withResponse(view);
  const job = await callQueue(env, queueId, (queue) => queue.get(view.id, null));
  return job === null ? view : await withResponse(await wholeJob(env, queueId, job));
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
