import type { QueueStub } from '../../asking/objects.ts';
import { freeBytes } from '../../durable/free-bytes.ts';
import {
  bytesOf,
  type HeardAnswer,
  isUnserved,
  type SubmitAnswer,
  type SubmitJob,
  type Unserved,
} from '../../queue/rpc.ts';
import { jobFacts, withModel } from '../../request-facts/job-facts.ts';
import { costOf } from '../../request-facts/lengths.ts';
import { lengthOfModel } from '../auth/terms.ts';
import { asHttp } from '../bodies/body.ts';
import { type Env, type ModelAliases, modelAliases } from '../env.ts';
import { callQueue } from '../objects/calls.ts';
import { choosePools, resolved } from '../objects/work.ts';
import { prefixOf } from '../prompt-prefix.ts';
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

type Submit<T> = (queue: QueueStub, jobs: SubmitJob[]) => Promise<(T | Unserved)[]>;

/** Submits jobs by the given call. Long payloads are in files before the queue learns of their jobs. */
async function submitBy<T extends HeardAnswer>(
  env: Env,
  queueId: string,
  given: ReadJob[],
  submit: Submit<T>,
): Promise<T[]> {
  const aliases = modelAliases(env.MODEL_ALIASES);
  const answers: T[] = [];
  let jobs: SubmitJob[] = [];
  let characters = 0;
  for (const [index, job] of given.entries()) {
    const whole = await withFacts(env, queueId, job, aliases);
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
    const known = await choosePools(
      env,
      queueId,
      unserved.map(({ endpoint, model }) => endpoint ?? model ?? null),
    );
    const again = await submit(
      queue,
      unserved.map((job, index) => ({ ...job, known: known[index]! })),
    );
    const answersAgain = again.values();
    return answers.map((answer) => resolved(isUnserved(answer) ? answersAgain.next().value : answer));
  });
}

/**
 * Returns a job for the model that its caller's name stands for. It adds how the job's prompt begins and, if its token
 * has limits, what the job may cost, both read from the body that the engine will be sent. A body that cannot be read
 * was refused before.
 */
async function withFacts(
  env: Env,
  queueId: string,
  { facts: read, ...job }: ReadJob,
  aliases: ModelAliases,
): Promise<SubmitJob> {
  const { payload, tenant = null } = job;
  const model = job.model === undefined ? null : aliases.resolve(job.model);
  const isAlias = model !== (job.model ?? null);
  if (!job.limits && !isAlias && payload.length > MOST_LENGTH) return job;
  const bytes = read ? null : bytesOf(payload);
  try {
    const facts = read ?? asHttp(() => jobFacts(job.job_type, bytes!));
    const prefix = payload.length > MOST_LENGTH ? undefined : prefixOf(facts.body.fields, { tenant, model });
    return {
      ...job,
      ...(isAlias && model !== null && { model, payload: withModel(payload, facts, model) }),
      ...(prefix !== undefined && { prefix }),
      ...(job.limits && { cost: costOf(facts.lengths, await lengthOfModel(env, queueId, model)) }),
    };
  } finally {
    if (bytes) freeBytes(bytes);
  }
}
