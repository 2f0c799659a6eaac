import * as z from 'zod';
import { brokenOf } from '../asking/attempt-loop.ts';
import {
  bounds,
  EventTexts,
  eventData,
  fieldsOf,
  isSettled,
  type JobView,
  keepMembers,
  listNames,
  parseValue,
  type RunpodJob,
  RunpodPayload,
  runpodJob,
  runpodOutput,
  runpodStatus,
  runpodStreams,
  shortName,
  writeJson,
} from '../protocol/index.ts';
import type { FollowedJob, OutputCursor, ToldJob } from '../queue/rpc.ts';
import type { JobFacts } from '../request-facts/job-facts.ts';
import { modelProblem, type Permissions } from './auth/permissions.ts';
import { HttpError } from './errors.ts';
import type { ModelView, WorkerView } from './fleet-views.ts';
import { factsProblem, type ReadJob, readFacts } from './jobs/submissions.ts';
import type * as answers from './openapi/answers.ts';
import type { RunpodWorkers } from './openapi/answers.ts';

/**
 * Returns the pool that an endpoint stands for: the pool's own name, a model that it serves, or "default" for the only
 * one.
 * @throws HttpError 404 that lists the endpoints there are
 */
export function poolOfEndpoint(endpoint: string, models: readonly ModelView[]): string {
  const found = models.find(({ id, config_id }) => id === endpoint || config_id === endpoint);
  if (found) return found.config_id;
  const available = models.filter((model) => model.available);
  const pools = [...new Set((available.length > 0 ? available : models).map(({ config_id }) => config_id))];
  if (endpoint === 'default' && pools.length === 1) return pools[0]!;
  throw unknownEndpoint(endpoint, pools.length > 0 ? `Endpoints there are: ${listNames(pools)}.` : null);
}

/** @param there the sentence that lists the endpoints; null where none are known */
export function unknownEndpoint(endpoint: string, there: string | null): HttpError {
  const known = there ?? 'No worker is known here.';
  return new HttpError(404, `There is no endpoint "${shortName(endpoint)}". ${known}`, 'endpoint_not_found');
}

/** Returns the numbers of one pool's workers by RunPod's states. */
export function runpodWorkers(
  configId: string,
  workers: readonly WorkerView[],
): z.infer<typeof RunpodWorkers> {
  const own = workers.filter((worker) => worker.config_id === configId);
  const connected = own.filter(({ state }) => state !== 'disconnected');
  const gone = own.filter(({ state }) => state === 'disconnected');
  const idle = connected.filter(({ state, running }) => state === 'ready' && running === 0).length;
  return {
    idle,
    initializing: gone.filter(({ status }) => status === 'starting').length,
    ready: connected.filter(({ state }) => state === 'ready').length,
    running: connected.filter(({ running }) => running > 0).length,
    throttled: connected.filter(({ state }) => state === 'paused').length,
    unhealthy: gone.filter(({ status }) => status !== null && BROKEN.has(status)).length,
  };
}

/** The last states of workers that did not end normally. */
const BROKEN = new Set(['error', 'failed', 'fatal']);

/** Returns a job in RunPod's form. @param job with its result */
export function shownJob(job: JobView): RunpodJob {
  return runpodJob(job, outputOf(job));
}

/** Returns all outputs of a finished job. */
function outputOf(job: JobView): unknown[] {
  return runpodOutput(job.result);
}

/**
 * A call waits this many ms for outputs, and collects those that come: less than the shortest time limit of RunPod's
 * clients.
 */
const WAIT_MS = 2000;
/** Outputs that come within this many ms of each other go into one answer. */
const QUIET_MS = 20;

type RunpodStream = z.infer<typeof answers.RunpodStream>;

export interface StreamParts {
  /** Returns the job, as soon as it is settled or has an attempt after `fence`; null where there is none. */
  follow(fence: number, waitMs: number): Promise<FollowedJob | null>;
  /** Returns the relay's response for the answer of one attempt; rejects when the signal fires. */
  openReplay(workerId: string, streamId: number, signal: AbortSignal): Promise<Response>;
  /** Moves the cursor on; returns false where another call has taken these outputs. */
  take(from: OutputCursor, to: OutputCursor): Promise<boolean>;
  /** Returns a job with its result. */
  whole(job: ToldJob): Promise<JobView>;
  sleep(ms: number): Promise<void>;
}

/**
 * Returns the outputs of a job that no call has taken yet: from its replay buffer while it runs, from its result once
 * it has ended. Waits a moment where there are none. Outputs of two attempts are never mixed: if an attempt broke
 * after some of its outputs were taken, the stream has failed, even if the job succeeds.
 * @returns null where there is no such job
 */
export async function nextOutputs(jobId: string, parts: StreamParts): Promise<RunpodStream | null> {
  let followed = await parts.follow(0, 0);
  if (followed?.job.state === 'pending') followed = await parts.follow(followed.job.fence_token, WAIT_MS);
  if (followed === null) return null;
  const { job, cursor, live } = followed;
  if (cursor.taken > 0 && cursor.fence_token !== job.fence_token && job.state !== 'cancelled') {
    const error = `the attempt that this stream came from failed; GET status/${jobId} tells what becomes of the job`;
    return { id: jobId, status: 'FAILED', stream: [], error };
  }
  const status = runpodStatus(job);
  const outputs = isSettled(job.state)
    ? outputOf(await parts.whole(job)).slice(cursor.taken)
    : live === null
      ? []
      : await fromReplay(live, cursor.taken, parts);
  const to = { fence_token: job.fence_token, taken: cursor.taken + outputs.length };
  const isMine = outputs.length === 0 || (await parts.take(cursor, to));
  const error = job.error === null ? {} : { error: job.error.message };
  return { id: jobId, status, stream: isMine ? outputs.map((output) => ({ output })) : [], ...error };
}

/** @param taken the number of outputs that are left out */
async function fromReplay(
  { worker_id, stream_id }: NonNullable<FollowedJob['live']>,
  taken: number,
  { openReplay, sleep }: StreamParts,
): Promise<unknown[]> {
  const leave = new AbortController();
  const over = sleep(WAIT_MS).then(() => null);
  const opening = openReplay(worker_id, stream_id, leave.signal).catch(() => null);
  const response = await Promise.race([opening, over]);
  if (response?.body == null || brokenOf(response) !== null) {
    leave.abort();
    return [];
  }
  const reader = response.body.getReader();
  const events = new EventTexts();
  let seen = 0;
  const outputs: unknown[] = [];
  for (;;) {
    const waits = outputs.length > 0 ? [over, sleep(QUIET_MS).then(() => null)] : [over];
    // A replay buffer that breaks off within an event fails the read.
    const read = await Promise.race([...waits, reader.read().catch(() => null)]);
    if (read?.value === undefined) break;
    for (const output of events.push(read.value).flatMap(outputsIn)) if (++seen > taken) outputs.push(output);
  }
  await reader.cancel().catch(() => {});
  leave.abort();
  return outputs;
}

/** Returns the output in a worker's event; none for a comment, or for the relay's own event that the attempt broke. */
function outputsIn(event: string): unknown[] {
  if (!event.startsWith('data: {"output":')) return [];
  const json = eventData(event);
  const said = JSON.parse(json) as { output: unknown };
  keepMembers(said, new TextEncoder().encode(json), ['output']);
  return [said.output];
}

/** The priority of jobs with `lowPriority`, which run after all others. */
const LOW_PRIORITY = -1;

/** The body of `run` and `runsync`. */
export const RunpodSubmission = RunpodPayload.extend({
  webhook: z.string('expected a URL').max(2048).nullish(),
  s3Config: z
    .unknown()
    .refine((value) => !value, 'is not supported: answers of an engine are part of the output')
    .optional(),
});

/**
 * Reads the body of `run` or `runsync` as a stored job.
 * @param endpoint a pool, a model, or "default"
 * @param permissions what the submitter may ask for
 * @throws HttpError 400 that names the field, 403 for a priority that the submitter may not ask for
 */
export function readRunpodSubmission(
  body: unknown,
  id: string,
  endpoint: string,
  permissions: Permissions,
): ReadJob {
  const parsed = parseValue(RunpodSubmission, body);
  if (!parsed.ok) throw new HttpError(400, parsed.message, 'invalid_job');
  const { input, policy, webhook } = parsed.value;
  const asGiven = { input: fieldsOf(body).input, ...(policy ? { policy } : {}) };
  const facts = readFacts('runpod', writeJson(asGiven));
  if (facts instanceof HttpError) throw facts;
  const named = endpoint === 'default' ? null : endpoint;
  const model = facts.model ?? named;
  const judge = (read: JobFacts) => factsProblem({ ...read, model: read.model ?? named }, permissions);
  const denied = judge(facts) ?? (named === null ? null : modelProblem([named], permissions));
  if (denied) throw denied;
  // If the endpoint is a model, the worker puts that model into a body that names none.
  const payload = writeJson(facts.model === model ? asGiven : { ...asGiven, model });
  return {
    id,
    job_type: 'runpod',
    payload,
    endpoint,
    ...(model !== null && { model }),
    priority: policy?.lowPriority ? Math.min(LOW_PRIORITY, permissions.usual) : permissions.usual,
    max_attempts: bounds.MAX_ATTEMPTS,
    ...(policy?.ttl ? { deadline_seconds: policy.ttl / 1000 } : {}),
    ...(webhook ? { webhook } : {}),
    stream: runpodStreams(input),
    judge,
  };
}
