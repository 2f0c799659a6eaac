import type { Batch, Unserved } from '../../batches/batch.ts';
import type { BatchesAsk } from '../../batches/object.ts';
import type { BatchFiles, BatchQueue, LineJob, SubmittedLine } from '../../batches/ports.ts';
import type { PoolChoice } from '../../fleet/rpc.ts';
import {
  bounds,
  fitsUtf8,
  inferenceRoutes,
  shortName,
  type Waiting,
  waitsFor,
} from '../../protocol/index.ts';
import type { HeardAnswer } from '../../queue/rpc.ts';
import { type BodyFacts, bodyFacts } from '../../request-facts/body-facts.ts';
import { adapterProblem, enginePriorityProblem, jobRouteProblem, modelProblem } from '../auth/permissions.ts';
import { termsByName } from '../auth/terms.ts';
import { asHttp } from '../bodies/body.ts';
import type { Env } from '../env.ts';
import { HttpError } from '../errors.ts';
import { previousResponseProblem, type ReadJob } from '../jobs/submissions.ts';
import { submitAndListen } from '../jobs/submit-jobs.ts';
import { callBatches, callFiles, callQueue } from './calls.ts';
import { settledJobs } from './settled-jobs.ts';
import { choosePools, waitingOfJob, waitingOfModel } from './work.ts';

/** The priority of lines of batches: below interactive work. */
const PRIORITY = -10;
/** The name of the one listener that all batches of a queue share. */
const LISTENER = 'batches';

/** Returns calls of the queue that runs the lines of batches. */
export function batchQueue(env: Env, queueId: string): BatchQueue {
  return {
    submit: (jobs) => submit(env, queueId, jobs),
    ...settledJobs(env, queueId, LISTENER),
    stateOf: async (id) => (await callQueue(env, queueId, (queue) => queue.get(id, null)))?.state ?? null,
    cancel: async (id) =>
      void (await callQueue(env, queueId, (queue) => queue.cancel(id, 'cancelled', null))),
    whyWaiting: async (id) => (await waitingOfJob(env, queueId, id, null))?.for ?? null,
    unserved: (models) => unserved(env, queueId, models),
    slots: (models) => callQueue(env, queueId, (queue) => queue.batchSlots(models)),
  };
}

/** Returns the models that callers' names for them stand for; of an alias, the one that most of its lines go to. */
function ownModels(
  env: Env,
  queueId: string,
  models: readonly (string | null)[],
): Promise<(string | null)[]> {
  return callQueue(env, queueId, (queue) => queue.mainModels(models));
}

async function unserved(
  env: Env,
  queueId: string,
  models: readonly (string | null)[],
): Promise<(Unserved | null)[] | null> {
  const slots = await callQueue(env, queueId, (queue) => queue.batchSlots(models));
  const away = models.filter((_, index) => slots[index]!.config_id === null);
  if (away.length === 0) return models.map(() => null);
  const choices = await choosePools(env, queueId, await ownModels(env, queueId, away));
  if (choices.some((choice) => choice.kind === 'unknown' && choice.models === '')) return null;
  const next = choices.values();
  return models.map((model, index) =>
    slots[index]!.config_id === null ? unservedBy(next.next().value!, model) : null,
  );
}

function unservedBy(choice: PoolChoice, model: string | null): Unserved | null {
  if (choice.kind === 'pool') return null;
  const message =
    choice.kind === 'ambiguous'
      ? `body.model: name a model, there are several: ${choice.models}.`
      : `body.model: the model "${shortName(model ?? '')}" is not served here; models: ${choice.models}.`;
  return { code: choice.kind === 'ambiguous' ? 'model_required' : 'model_not_found', message };
}

async function submit(env: Env, queueId: string, lines: LineJob[]): Promise<SubmittedLine[]> {
  const all = lines.map(jobOf);
  const refusals = lines.map((line, index) => refusalOf(line, all[index]!.payload));
  const jobs = all.filter((_, index) => refusals[index] === null);
  const termsOf = await termsByName(env);
  const limited = jobs.map((job) => ({ ...job, ...termsOf(job.token_name ?? null) }));
  const answers = (await submitAndListen(env, queueId, limited, LISTENER)).values();
  return refusals.map((refused) => (refused === null ? answerOf(answers.next().value) : { refused }));
}

/**
 * The error for a line that is too long as a payload: a line may have 20 MiB, but in a payload each of its quotes and
 * backslashes is two characters.
 */
const TOO_LONG = `The request is longer than ${bounds.PAYLOAD_BYTES / 1024 / 1024} MiB with its quotes and backslashes escaped, as the queue keeps it.`;

/** The bounds of lines of batches: they give way to all other requests, at engines too. */
const NO_HASTE = { highest: 0, usual: 0, name: null };
const TOO_HASTY = 'priority: a line of a batch may ask for 0 at least, where the lowest number goes first.';

/** Returns why the gateway does not pass this line on, or null where it does. */
function refusalOf(line: LineJob, payload: string): string | null {
  // No worker fetches a longer payload, so this one would hold up all batches.
  if (!fitsUtf8(payload, bounds.PAYLOAD_BYTES)) return TOO_LONG;
  try {
    return problemOf(
      line,
      asHttp(() => bodyFacts(new TextEncoder().encode(line.body), null)),
    );
  } catch (error) {
    if (error instanceof HttpError) return error.message;
    throw error;
  }
}

/** Returns why a line may not ask an engine for its body, or null. */
function problemOf({ path, ...by }: LineJob, facts: BodyFacts): string | null {
  if (enginePriorityProblem(facts.priority, NO_HASTE)) return TOO_HASTY;
  const permissions = {
    ...NO_HASTE,
    name: by.token_name,
    models: by.token_models ?? null,
    routes: by.token_routes ?? null,
  };
  const denied =
    modelProblem([facts.model], permissions) ??
    adapterProblem(facts, permissions) ??
    jobRouteProblem(path, permissions);
  return denied?.message ?? previousResponseProblem(path, facts.previousId);
}

function jobOf(line: LineJob): ReadJob {
  const { id, tenant, token_name, path, body, model, deadline_seconds } = line;
  return {
    id,
    tenant,
    token_name,
    job_type: 'engine_request',
    payload: JSON.stringify({ method: 'POST', path, body }),
    ...(model !== null && { model }),
    priority: PRIORITY,
    max_attempts: 3,
    deadline_seconds,
    judge: ({ body }) => {
      const problem = problemOf(line, body);
      return problem === null ? null : new HttpError(400, problem, 'invalid_job');
    },
  };
}

function answerOf(answer: HeardAnswer | undefined): SubmittedLine {
  if (!answer) throw new Error('the queue did not answer for a line');
  if (answer.ok) return 'submitted';
  // A hook that could not be asked may be there again in a moment.
  if (answer.reason === 'filtered' && answer.status < 500) return { refused: answer.message };
  const isFinal = answer.reason === 'conflict' || answer.reason === 'invalid_webhook';
  return isFinal ? { refused: answer.message } : { wait: answer.message };
}

/** Returns the calls that the object of a queue id's batches makes to other objects, in the same way as the gateway. */
export function batchesAsk(env: Env, queueId: string): BatchesAsk {
  return {
    queue: batchQueue(env, queueId),
    files: batchFiles(env, queueId),
    routes: inferenceRoutes(env.INFERENCE_ROUTES),
    ownModels: (models) => ownModels(env, queueId, models),
  };
}

/** Returns calls of the object that holds the files of a queue id's batches. */
function batchFiles(env: Env, queueId: string): BatchFiles {
  return {
    size: (id) => callFiles(env, queueId, (files) => files.size(id)),
    read: (id, offset, length) => callFiles(env, queueId, (files) => files.read(id, offset, length)),
    readLines: (id, lines) => callFiles(env, queueId, (files) => files.readLines(id, lines)),
    append: (id, lines) => callFiles(env, queueId, (files) => files.append(id, lines)),
    keep: (id, expiresAt) => callFiles(env, queueId, (files) => files.keep(id, expiresAt)),
  };
}

/** Returns what the next line of a batch waits for, or null where that line runs or the batch does not. */
export async function waitingOfBatch(env: Env, queueId: string, batch: Batch): Promise<Waiting | null> {
  if (batch.status !== 'in_progress') return null;
  const line = await callBatches(env, queueId, (batches) => batches.nextLine(batch.id));
  if (line === null) return null;
  if (line.job_id !== null) return await waitingOfJob(env, queueId, line.job_id, null);
  const [model] = await ownModels(env, queueId, [line.model]);
  const waiting = await waitingOfModel(env, queueId, model ?? null);
  const isOfPool = waiting !== null && waiting.code !== 'turn' && waiting.code !== 'busy';
  return line.why === null || isOfPool ? waiting : waitsFor('queue_full', line.why.replace(/\.$/, ''));
}
