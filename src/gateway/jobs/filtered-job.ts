import { FilterRefusal, filterRequest } from '../../asking/filters.ts';
import type { SubmitAnswer } from '../../queue/rpc.ts';
import { type JobFacts, withBody } from '../../request-facts/job-facts.ts';
import type { Env } from '../env.ts';
import { HttpError } from '../errors.ts';
import { AskedRequest } from '../inference/filtered.ts';
import { type ReadJob, readFacts } from './submissions.ts';

/** Why a job is not stored, since a filter refused it or what it made of the job is not allowed. */
export type FilteredAnswer = Extract<SubmitAnswer, { reason: 'filtered' }>;

/** So many jobs of a submission are with the filters at once. */
const AT_ONCE = 16;

/**
 * Has the filters of a queue look at jobs before they are submitted. Of a job that they change, everything is read anew
 * and judged as the submitter's own.
 * @returns for each job what is submitted, or why it is not, in their order
 */
export async function filteredJobs<J extends ReadJob & { id: string }>(
  env: Env,
  queueId: string,
  jobs: readonly J[],
): Promise<(J | FilteredAnswer)[]> {
  const became: (J | FilteredAnswer)[] = [];
  for (let from = 0; from < jobs.length; from += AT_ONCE)
    became.push(
      ...(await Promise.all(jobs.slice(from, from + AT_ONCE).map((job) => filtered(env, queueId, job)))),
    );
  return became;
}

async function filtered<J extends ReadJob & { id: string }>(
  env: Env,
  queueId: string,
  job: J,
): Promise<J | FilteredAnswer> {
  const facts = readFacts(job.job_type, job.payload);
  // The check before has refused payloads that cannot be read.
  if (facts instanceof HttpError || facts.request.body.byteLength === 0) return job;
  const asked = new AskedRequest(env, {
    road: 'job',
    queueId,
    jobId: job.id,
    tenant: job.tenant ?? null,
    tokenName: job.token_name ?? null,
    keep: job.keep ?? null,
    path: facts.request.path,
    model: facts.model,
    contentType: facts.request.contentType,
    requestId: job.id,
  });
  try {
    const body = await filterRequest(env.filters ?? [], asked, facts.request.body);
    return { ...(body === null ? job : changed(job, facts, body)), ...asked.takeNotes() };
  } catch (error) {
    if (error instanceof FilterRefusal || error instanceof HttpError) return refusalOf(error);
    throw error;
  }
}

/** Returns a job with another body for the engine. @throws HttpError where its submitter may not ask for that */
function changed<J extends ReadJob>(job: J, before: JobFacts, body: Uint8Array<ArrayBuffer>): J {
  const payload = withBody(job.payload, before, body);
  const facts = readFacts(job.job_type, payload);
  if (facts instanceof HttpError) throw facts;
  const denied = job.judge?.(facts) ?? null;
  if (denied !== null) throw denied;
  return { ...job, payload, facts, ...(facts.model !== null && { model: facts.model }) };
}

function refusalOf({ status, code, message }: FilterRefusal | HttpError): FilteredAnswer {
  return { ok: false, reason: 'filtered', status, code: code ?? 'invalid_job', message };
}
