import type { QueueStub } from '../../asking/objects.ts';
import { freeBytes } from '../../durable/free-bytes.ts';
import { idOf } from '../../protocol/ids.ts';
import { bounds, fitsUtf8 } from '../../protocol/index.ts';
import {
  type AskedModel,
  bytesOf,
  type HeardAnswer,
  isUnserved,
  type SubmitAnswer,
  type SubmitJob,
  type Unserved,
} from '../../queue/rpc.ts';
import { type JobFacts, jobFacts, withModel } from '../../request-facts/job-facts.ts';
import { costOf } from '../../request-facts/lengths.ts';
import { lengthOfModel } from '../auth/terms.ts';
import { asHttp } from '../bodies/body.ts';
import type { Env } from '../env.ts';
import { callQueue } from '../objects/calls.ts';
import { knownPools, resolved } from '../objects/work.ts';
import { prefixOf } from '../prompt-prefix.ts';
import { sessionOf } from '../session-key.ts';
import { filteredJobs } from './filtered-job.ts';
import { dropJobFile, withPayloadFile } from './job-files.ts';
import type { ReadJob } from './submissions.ts';

/** The most characters of payloads in one call and its commit; RPC carries 32 MiB, and up to two bytes a character. */
const CALL_CHARACTERS = 8_000_000;

/** Submits jobs. @returns answers in their order */
export function submitJobs(env: Env, queueId: string, jobs: ReadJob[]): Promise<SubmitAnswer[]> {
  return submitBy(env, queueId, jobs, (queue, jobs) => queue.submit(jobs));
}

/** Submits jobs for a listener, which learns when they settle. */
export function submitAndListen(
  env: Env,
  queueId: string,
  jobs: ReadJob[],
  listener: string,
): Promise<HeardAnswer[]> {
  return submitBy(env, queueId, jobs, (queue, jobs) => queue.submitAndListen(jobs, listener));
}

/**
 * The gateway looks for a prompt in at most this many characters: a stored job with a longer payload goes to any
 * worker.
 */
const MOST_LENGTH = 1_000_000;

type NamedJob = SubmitJob & { id: string };

type Submit<T> = (queue: QueueStub, jobs: SubmitJob[]) => Promise<(T | Unserved)[]>;

/** Submits jobs by the given call. Long payloads are in files before the queue learns of their jobs. */
async function submitBy<T extends HeardAnswer>(
  env: Env,
  queueId: string,
  given: ReadJob[],
  submit: Submit<T>,
): Promise<T[]> {
  // A call that is repeated must name the same job, so each has an id before the first.
  const named = given.map((job) => ({ ...job, id: job.id ?? idOf('job', queueId) }));
  if (!env.filters) return await submitAll(env, queueId, named, submit);
  const became = await filteredJobs(env, queueId, named);
  const left = became.filter((job): job is NamedJob & ReadJob => !('ok' in job));
  const answers = (await submitAll(env, queueId, left, submit)).values();
  // A refusal is an answer of every form.
  return became.map((job) => ('ok' in job ? (job as unknown as T) : answers.next().value!));
}

async function submitAll<T extends HeardAnswer>(
  env: Env,
  queueId: string,
  given: (NamedJob & ReadJob)[],
  submit: Submit<T>,
): Promise<T[]> {
  const answers: T[] = [];
  let jobs: SubmitJob[] = [];
  let characters = 0;
  for (const [index, job] of given.entries()) {
    const whole = await withFacts(env, queueId, job);
    const ready = await withPayloadFile(env, queueId, whole);
    characters += ready.payload.length;
    jobs.push(ready);
    if (characters <= CALL_CHARACTERS && index < given.length - 1) continue;
    answers.push(...(await submitSome(env, queueId, jobs, submit)));
    jobs = [];
    characters = 0;
  }
  return answers;
}

async function submitSome<T extends HeardAnswer>(
  env: Env,
  queueId: string,
  jobs: SubmitJob[],
  submit: Submit<T>,
): Promise<T[]> {
  const answers = await submitServed(env, queueId, jobs, submit);
  for (const [index, answer] of answers.entries()) {
    const file = jobs[index]?.payload_file;
    if (file !== undefined && !(answer.ok && answer.has_file)) await dropJobFile(env, queueId, file);
  }
  return answers;
}

/**
 * Submits jobs, and once more those for models that no connected worker serves, with the pools that are known for
 * them.
 */
function submitServed<T extends object>(
  env: Env,
  queueId: string,
  jobs: SubmitJob[],
  submit: Submit<T>,
): Promise<T[]> {
  return callQueue(env, queueId, async (queue) => {
    const answers = await submit(queue, jobs);
    const unserved = jobs.filter((_, index) => isUnserved(answers[index]));
    if (unserved.length === 0) return answers.map((answer) => resolved(answer));
    const asked = new Set(answers.flatMap((answer) => (isUnserved(answer) ? answer.models : [])));
    const known = await knownPools(env, queueId, [...asked]);
    const again = await submit(
      queue,
      unserved.map((job) => ({ ...job, known })),
    );
    const answersAgain = again.values();
    return answers.map((answer) => resolved(isUnserved(answer) ? answersAgain.next().value : answer));
  });
}

/**
 * Returns a job with how its prompt begins and, if its token has limits, what the job may cost, both read from the body
 * that the engine will be sent. A body that cannot be read was refused before.
 */
async function withFacts(
  env: Env,
  queueId: string,
  { facts: read, judge: _, ...given }: NamedJob & ReadJob,
): Promise<NamedJob> {
  const { payload, tenant = null } = given;
  const isInFile = given.model !== undefined && !fitsUtf8(payload, bounds.INLINE_BYTES);
  if (!given.limits && !isInFile && payload.length > MOST_LENGTH) return given;
  const bytes = read ? null : bytesOf(payload);
  try {
    const facts = read ?? asHttp(() => jobFacts(given.job_type, bytes!));
    const session = sessionOf(null, facts.body.fields);
    const job = isInFile ? await withChosenModel(env, queueId, { ...given, ...session }, facts) : given;
    const { model = null } = job;
    const prefix = payload.length > MOST_LENGTH ? undefined : prefixOf(facts.body.fields, { tenant, model });
    return {
      ...job,
      ...session,
      ...(prefix !== undefined && { prefix }),
      ...(job.limits && { cost: costOf(facts.lengths, await lengthOfModel(env, queueId, model)) }),
    };
  } finally {
    if (bytes) freeBytes(bytes);
  }
}

/**
 * Chooses the model of a job whose payload goes into a file: the queue names the models of other jobs when it sends
 * them, but never reads files.
 */
async function withChosenModel(env: Env, queueId: string, job: NamedJob, facts: JobFacts): Promise<NamedJob> {
  const { id, model = null, session, tenant, config_id } = job;
  const asked: AskedModel = {
    model,
    ...(session !== undefined && { session }),
    ...(tenant !== undefined && { tenant }),
    ...(config_id !== undefined && { config_id }),
  };
  const chosen = await callQueue(env, queueId, async (queue) => {
    const first = await queue.chosenModel(asked, id);
    if (typeof first !== 'object' || first === null) return first;
    const known = await knownPools(env, queueId, first.models);
    return queue.chosenModel({ ...asked, known }, id);
  });
  return typeof chosen === 'string'
    ? { ...job, model: chosen, payload: withModel(job.payload, facts, chosen) }
    : job;
}
