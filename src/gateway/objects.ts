import type { BatchesRpc } from '../batches/rpc.ts';
import type { FileRpc } from '../files/rpc.ts';
import { type FleetRpc, type PoolChoice, SIGN_IN_HEADER, type TokenCalls } from '../fleet/rpc.ts';
import { limits, matchesPattern } from '../protocol/index.ts';
import { askForWorker, type Opened } from '../queue/request-call.ts';
import {
  BUCKET_UNREADABLE,
  type HeardAnswer,
  isUnserved,
  packText,
  type QueueRpc,
  type RequestAnswer,
  type Sent,
  type SubmitAnswer,
  type SubmitJob,
  type Unserved,
  unpackText,
  type WaitingRequest,
  WORKER_TOKEN_HEADERS,
} from '../queue/rpc.ts';
import { RELAY_HEADER, relayName } from '../relay/calls.ts';
import type { SchedulerRpc } from '../scheduler/rpc.ts';
import { DEFAULT_QUEUE, QUEUE_SETTINGS } from '../settings/queue-settings.ts';
import type { TokenEntry } from '../settings/token-entry.ts';
import { type Env, objectNamed } from './env.ts';
import { HttpError, retryAfter } from './errors.ts';
import { type ModelAliases, modelAliases } from './model-aliases.ts';
import { storageFault } from './storage-faults.ts';

/**
 * Which queue a request is for: header `X-Queue-Id`, else query `queue_id`, else the default. Each id is an object
 * with a database of its own, made by asking for it, so only ids of `QUEUE_IDS` are let through.
 * @param named in the body; goes before all
 * @throws HttpError 400, or 404 for a queue that may not exist
 */
export function queueIdOf(env: Pick<Env, 'QUEUE_IDS'>, request: Request, named?: string): string {
  const { headers, url } = request;
  const id = named ?? headers.get('x-queue-id') ?? new URL(url).searchParams.get('queue_id') ?? DEFAULT_QUEUE;
  if (id === '' || id.length > 256) {
    throw new HttpError(400, 'The queue id must have 1 to 256 characters.', 'invalid_queue_id');
  }
  if (mayBeQueue(env, id)) return id;
  throw new HttpError(
    404,
    `There is no queue ${JSON.stringify(id)} here. Name another with X-Queue-Id, or let this one exist: add its id, or a pattern like "team-*", to the variable QUEUE_IDS of the queue's process.`,
    'queue_not_found',
  );
}

/** Whether there is, or may be made, a queue of this id. */
export function mayBeQueue(env: Pick<Env, 'QUEUE_IDS'>, id: string): boolean {
  return allowedQueues(env).some((pattern) => matchesPattern(pattern, id));
}

function allowedQueues(env: Pick<Env, 'QUEUE_IDS'>): string[] {
  return (env.QUEUE_IDS || QUEUE_SETTINGS.queue_ids.default).split(',').map((pattern) => pattern.trim());
}

/** A queue that exists without being asked for: the default one, or one that QUEUE_IDS names without a pattern. */
export function isNamedQueue(env: Env, queueId: string): boolean {
  return queueId === DEFAULT_QUEUE || allowedQueues(env).includes(queueId);
}

/**
 * One call of a queue object. An object that restarts in the middle is asked once more; every call can be
 * made twice, since jobs carry their ids.
 * @param call with `again` it is the second time: the object has lost its memory, and its workers are coming back
 * @throws HttpError 503 when the second try meets a restart too, or the queue's database or bucket cannot be used
 */
export function callQueue<T>(
  env: Env,
  queueId: string,
  call: (queue: QueueObjectStub, again: boolean) => Promise<T>,
): Promise<T> {
  return onceMore(queueId, (again) => call(objectNamed(env.QUEUE, queueId), again));
}

type QueueObjectStub = ReturnType<typeof objectNamed<QueueRpc>>;

/** The same for the fleet object of a queue. */
export function callFleet<T>(
  env: Pick<Env, 'FLEET'>,
  queueId: string,
  call: (fleet: FleetRpc & TokenCalls & SchedulerRpc) => Promise<T>,
): Promise<T> {
  return onceMore(queueId, () => call(objectNamed(env.FLEET, queueId)));
}

/** The same for the object that knows the files and batches of a queue. */
export function callBatches<T>(
  env: Env,
  queueId: string,
  call: (batches: BatchesRpc) => Promise<T>,
): Promise<T> {
  return onceMore(queueId, () => call(objectNamed(env.BATCHES, queueId)));
}

/** The same for the object that holds the bytes of a queue's files. */
export function callFiles<T>(env: Env, queueId: string, call: (files: FileRpc) => Promise<T>): Promise<T> {
  return onceMore(queueId, () => call(objectNamed(env.FILE, queueId)));
}

/** The content of a file: 404 where there is none, 503 where the bucket does not give it. */
export function fetchFile(env: Env, queueId: string, fileId: string): Promise<Response> {
  return onceMore(queueId, () => objectNamed(env.FILE, queueId).fetch(`https://files/${fileId}`));
}

async function onceMore<T>(queueId: string, call: (again: boolean) => Promise<T>): Promise<T> {
  try {
    return await call(false);
  } catch (error) {
    const fault = storageFault(error, queueId);
    if (fault || !isRestart(error)) throw fault ?? told(error);
  }
  try {
    return await call(true);
  } catch (error) {
    const fault = storageFault(error, queueId);
    if (fault || !isRestart(error)) throw fault ?? told(error);
    throw new HttpError(
      503,
      'The queue is restarting; try again in a moment.',
      'queue_restarting',
      retryAfter(1),
    );
  }
}

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
  const jobs = aliases.models.size === 0 ? given : given.map((job) => withOwnModel(job, aliases));
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

function choosePools(env: Env, queueId: string, models: (string | null)[]): Promise<PoolChoice[]> {
  return objectNamed(env.FLEET, queueId).choosePools(models);
}

function resolved<T extends object>(answer: T | Unserved | undefined): T {
  if (answer && !isUnserved(answer)) return answer;
  throw new Error('the queue asked for a pool that it was given');
}

/** What its callers are told of an error of the queue. */
function told(error: unknown): unknown {
  if ((error as Partial<Error>).message !== BUCKET_UNREADABLE) return error;
  return new HttpError(503, BUCKET_UNREADABLE, 'bucket_unreadable', retryAfter(5));
}

/** The runtime marks what came from an object that ended, rather than from the code in it. */
function isRestart(error: unknown): boolean {
  type Marked = { retryable?: boolean; durableObjectReset?: boolean; message?: string };
  const { retryable, durableObjectReset, message } = error as Marked;
  return (
    retryable === true ||
    durableObjectReset === true ||
    /connection (was )?lost|object .*reset/i.test(message ?? '')
  );
}

/** Objects that may hold sockets of this process, for closing them at its end. */
const dialled = { queues: new Set<string>(), relays: new Set<string>(), fleets: new Set<string>() };

/**
 * Passes a worker's WebSocket upgrade to its queue, with what its token says of it: `register`, which need not name
 * the worker as the address does, is checked there.
 */
export async function dialQueue(
  env: Env,
  queueId: string,
  request: Request,
  token: (TokenEntry & { config_id?: string }) | null,
): Promise<Response> {
  dialled.queues.add(queueId);
  const headers = new Headers(request.headers);
  for (const name of [...Object.values(WORKER_TOKEN_HEADERS), RELAY_HEADER]) headers.delete(name);
  if (token) headers.set(WORKER_TOKEN_HEADERS.name, encodeURIComponent(token.name));
  if (token?.worker_id) headers.set(WORKER_TOKEN_HEADERS.pattern, encodeURIComponent(token.worker_id));
  if (token?.config_id) headers.set(WORKER_TOKEN_HEADERS.pool, encodeURIComponent(token.config_id));
  try {
    return await objectNamed(env.QUEUE, queueId).fetch(new Request(request, { headers }));
  } catch (error) {
    throw storageFault(error, queueId) ?? error;
  }
}

/**
 * Passes the upgrade of one who looks at a fleet to its object.
 * @param signIn id of the sign-in with whose cookie it is asked for: the socket ends with it
 */
export function watchFleet(
  env: Env,
  queueId: string,
  request: Request,
  signIn: string | undefined,
): Promise<Response> {
  dialled.fleets.add(queueId);
  const headers = new Headers(request.headers);
  headers.delete(SIGN_IN_HEADER);
  if (signIn !== undefined) headers.set(SIGN_IN_HEADER, signIn);
  return objectNamed(env.FLEET, queueId).fetch(new Request(request, { headers }));
}

/** Passes the upgrade of a worker's answer socket to its relay. */
export function dialRelay(env: Env, queueId: string, workerId: string, request: Request): Promise<Response> {
  const name = relayName(queueId, workerId);
  if (!env.RELAYS_IN_QUEUE) dialled.relays.add(name);
  return fetchRelay(env, queueId, name, new Request(request));
}

/** Asks a relay, wherever it lives. @param name of relayName */
export function fetchRelay(env: Env, queueId: string, name: string, request: Request): Promise<Response> {
  if (!env.RELAYS_IN_QUEUE) return objectNamed(env.RELAY, name).fetch(request);
  request.headers.set(RELAY_HEADER, encodeURIComponent(name));
  return objectNamed(env.QUEUE, queueId).fetch(request);
}

/** Tells every connected worker to reconnect, because this process ends. */
export async function closeAllSockets(env: Env): Promise<void> {
  await Promise.allSettled([
    ...[...dialled.queues].map((name) => objectNamed(env.QUEUE, name).closeSockets()),
    ...[...dialled.relays].map((name) => objectNamed(env.RELAY, name).closeSockets()),
  ]);
}

/** The same for all who look at a fleet. */
export async function closeAllViewers(env: Env): Promise<void> {
  await Promise.allSettled([...dialled.fleets].map((name) => objectNamed(env.FLEET, name).closeViewers()));
}
