import type { Env } from '../../../gateway/env.ts';
import { jobAnswers } from '../../../gateway/jobs/job-answers.ts';
import { callFiles, callFleet, callKeptRequests, callQueue } from '../../../gateway/objects/calls.ts';
import { readJob, settledJobs } from '../../../gateway/objects/settled-jobs.ts';
import { isSettled } from '../../../protocol/index.ts';
import type { ToldJob } from '../../../queue/rpc.ts';
import type { BackgroundAsk } from '../object/ports.ts';

/** The name of the one listener that all responses in the background of a queue share. */
export const LISTENER = 'responses';

/** The worker of a response that is cancelled is waited for this long, ms, so that it tells what the response used. */
const REPORT_MS = 2000;

/** Returns the calls that the object of a queue id's responses makes to other objects, in the same way as the gateway. */
export function responsesAsk(env: Env, queueId: string): BackgroundAsk {
  const whole = async (job: ToldJob | null) => job && (await readJob(env, queueId, job));
  const used = async (id: string, waitMs: number) =>
    whole(await callQueue(env, queueId, (queue) => queue.used(id, waitMs, null)));
  return {
    ...settledJobs(env, queueId, LISTENER),
    job: (id, waitMs) => used(id, waitMs),
    cancel: async (id) => {
      const cancelled = await callQueue(env, queueId, (queue) => queue.cancel(id, 'cancelled', null));
      if (cancelled === null || !('result' in cancelled)) return null;
      return await used(id, REPORT_MS);
    },
    isOver: async (id) => {
      const found = await callQueue(env, queueId, (queue) => queue.ownerOf(id));
      return found === null || isSettled(found.state);
    },
    erase: async (id) => {
      await callQueue(env, queueId, (queue) => queue.cancel(id, 'cancelled', null));
      // A file is removed before the job forgets its name: a call that breaks off is made again.
      for (const kind of ['payload', 'result'] as const) {
        const kept = await callQueue(env, queueId, (queue) => queue.contents(id, kind, null));
        if (kept !== null && 'file' in kept)
          await callFiles(env, queueId, (files) => files.remove(kept.file));
      }
      await callQueue(env, queueId, (queue) => queue.eraseContents(id));
      await callFleet(env, queueId, (fleet) => fleet.eraseError(id));
    },
    eraseKept: async (id) => {
      await callKeptRequests(env, queueId, (kept) => kept.erase({ id }));
    },
    answers: (id) => jobAnswers(env, queueId, id, null),
  };
}
