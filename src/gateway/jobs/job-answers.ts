import type { FollowedJob, ToldJob, Viewer } from '../../queue/rpc.ts';
import type { Env } from '../env.ts';
import { HttpError } from '../errors.ts';
import { AskedRequest, filteredAnswer } from '../inference/filtered.ts';
import { callQueue } from '../objects/calls.ts';
import { jobFile, unknownJob } from './job-files.ts';
import { readFacts } from './submissions.ts';

/** How the answer of a stored job is read while it is made. */
export interface JobAnswers {
  /** Returns the job, as soon as it is settled or has an attempt after `fence`; null: there is none for this reader. */
  follow(fence: number, waitMs: number): Promise<FollowedJob | null>;
  /** Returns the relay's response for the answer of one attempt, as the queue's filters leave it. */
  openReplay(workerId: string, streamId: number, signal: AbortSignal): Promise<Response>;
}

/** Returns the calls that read the answer of a stored job. @param reader whose contents may be read */
export function jobAnswers(env: Env, queueId: string, id: string, reader: Viewer): JobAnswers {
  let told: ToldJob | null = null;
  return {
    follow: async (fence, waitMs) => {
      const followed = await callQueue(env, queueId, (queue) => queue.follow(id, fence, waitMs, reader));
      if (followed !== null) told = followed.job;
      return followed;
    },
    openReplay: async (workerId, streamId, signal) => {
      const response = await env.objects.relay(queueId, workerId).openReplay(streamId, {}, signal);
      if (!env.filters || told === null) return response;
      const asked = await askedOf(env, queueId, told);
      return await filteredAnswer(env, response, asked, { dialect: 'openai' });
    },
  };
}

/** Returns a stored job as filters know it. */
async function askedOf(
  env: Env,
  queueId: string,
  { id: jobId, job_type, tenant }: ToldJob,
): Promise<AskedRequest> {
  const [owner, payload] = await callQueue(env, queueId, (queue) =>
    Promise.all([queue.ownerOf(jobId), queue.contents(jobId, 'payload', null)]),
  );
  const text =
    payload === null || 'text' in payload ? payload?.text : await textOf(env, queueId, payload.file, jobId);
  const facts = text === undefined ? null : readFacts(job_type, text);
  const read = facts === null || facts instanceof HttpError ? null : facts;
  const asked = new AskedRequest(env, {
    road: 'job',
    queueId,
    jobId,
    tenant,
    tokenName: owner?.token_name ?? null,
    // The job is kept when it settles.
    keep: false,
    path: read?.request.path ?? null,
    model: read?.model ?? null,
    contentType: read?.request.contentType ?? null,
    requestId: jobId,
  });
  asked.takeNotes();
  return asked;
}

async function textOf(env: Env, queueId: string, file: string, jobId: string): Promise<string> {
  const response = await jobFile(env, queueId, file, () => unknownJob(jobId));
  return await response.text();
}
