import type { PoolChoice } from '../../fleet/rpc.ts';
import { limits } from '../../protocol/index.ts';
import { askForWorker, type Opened } from '../../queue/request-call.ts';
import {
  type HeardAnswer,
  isUnserved,
  packText,
  type RequestAnswer,
  type Sent,
  type SubmitAnswer,
  type SubmitJob,
  type Unserved,
  unpackText,
  type WaitingRequest,
} from '../../queue/rpc.ts';
import { type Env, objectNamed } from '../env.ts';
import { type ModelAliases, modelAliases } from '../model-aliases.ts';
import { prefixOfJob } from '../prompt-prefix.ts';
import { callQueue, type QueueObjectStub } from './calls.ts';

/** How long a caller whose queue restarted meanwhile waits for any worker at all. */
const WORKERS_COME_BACK_MS = limits.RECONNECT_GRACE_SECONDS * 1000;

/**
 * Asks a queue for a worker, and where none that is connected serves the model, once more with the pool that the
 * fleet object knows for it. Asked again since it restarted, a call has what is left of its deadline, and the
 * queue's workers a moment to come back.
 * @param more headers of the caller's response beside the engine's
 * @param now epoch ms
 * @throws HttpError 503, as `callQueue`
 */
export function callWorker(
  env: Env,
  queueId: string,
  wanted: WaitingRequest,
  more: Record<string, string>,
  now: () => number,
): Promise<RequestAnswer | Opened> {
  const startedAt = now();
  const { wait_for_worker_ms, deadline_ms, limit_ms } = wanted;
  const left = (ms: number) => Math.max(0, ms - (now() - startedAt));
  return callQueue(env, queueId, async (queue, again) => {
    const ask = (known?: PoolChoice) =>
      askForWorker(
        queue,
        {
          ...wanted,
          ...(known && { known }),
          wait_for_worker_ms: Math.max(wait_for_worker_ms, again ? WORKERS_COME_BACK_MS : 0),
          ...(deadline_ms !== undefined && { deadline_ms: left(deadline_ms) }),
          ...(limit_ms !== undefined && { limit_ms: left(limit_ms) }),
        },
        more,
      );
    const answer = await ask();
    if (!isUnserved(answer)) return answer;
    const [known] = await choosePools(env, queueId, [wanted.model]);
    return resolved(await ask(known));
  });
}

/** Submits jobs. @returns answers in their order */
export function submitJobs(env: Env, queueId: string, jobs: Sent<SubmitJob>[]): Promise<SubmitAnswer[]> {
  return submitBy(env, queueId, jobs, (queue, jobs) => queue.submit(jobs));
}

/** The same for a listener, which hears when they settle. */
export function submitAndListen(
  env: Env,
  queueId: string,
  jobs: Sent<SubmitJob>[],
  listener: string,
): Promise<HeardAnswer[]> {
  return submitBy(env, queueId, jobs, (queue, jobs) => queue.submitAndListen(jobs, listener));
}

/** Jobs for models that no connected worker serves are submitted once more, with the pools that are known for them. */
function submitBy<T extends object>(
  env: Env,
  queueId: string,
  given: Sent<SubmitJob>[],
  submit: (queue: QueueObjectStub, jobs: Sent<SubmitJob>[]) => Promise<(T | Unserved)[]>,
): Promise<T[]> {
  const aliases = modelAliases(env.MODEL_ALIASES);
  const own = aliases.models.size === 0 ? given : given.map((job) => withOwnModel(job, aliases));
  const jobs = own.map(withPrefix);
  return callQueue(env, queueId, async (queue) => {
    const answers = await submit(queue, jobs);
    const unserved = jobs.filter((_, index) => isUnserved(answers[index]));
    if (unserved.length === 0) return answers.map((answer) => resolved(answer));
    const known = await choosePools(
      env,
      queueId,
      unserved.map(({ model }) => model ?? null),
    );
    const again = await submit(
      queue,
      unserved.map((job, index) => ({ ...job, known: known[index]! })),
    );
    const answersAgain = again.values();
    return answers.map((answer) => resolved(isUnserved(answer) ? answersAgain.next().value : answer));
  });
}

/** A job for the model that its caller's name for it stands for. */
function withOwnModel(job: Sent<SubmitJob>, aliases: ModelAliases): Sent<SubmitJob> {
  if (job.model === undefined) return job;
  const model = aliases.resolve(job.model);
  if (model === job.model) return job;
  const payload = { ...(JSON.parse(unpackText(job.payload)) as object), model };
  return { ...job, model, payload: packText(JSON.stringify(payload)) };
}

function withPrefix(job: Sent<SubmitJob>): Sent<SubmitJob> {
  const { payload, tenant = null, model = null } = job;
  const prefix = prefixOfJob(payload, { tenant, model });
  return prefix === undefined ? job : { ...job, prefix };
}

function choosePools(env: Env, queueId: string, models: (string | null)[]): Promise<PoolChoice[]> {
  return objectNamed(env.FLEET, queueId).choosePools(models);
}

function resolved<T extends object>(answer: T | Unserved | undefined): T {
  if (answer && !isUnserved(answer)) return answer;
  throw new Error('the queue asked for a pool that it was given');
}
