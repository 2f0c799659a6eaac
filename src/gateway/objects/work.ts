import { withTimeLeft } from '../../asking/attempt-loop.ts';
import type { PoolChoice } from '../../fleet/rpc.ts';
import { type Waiting, waitsFor } from '../../protocol/index.ts';
import {
  isUnserved,
  type KnownPools,
  type RequestAnswer,
  type Unserved,
  type Viewer,
  type WaitingRequest,
} from '../../queue/rpc.ts';
import type { Env } from '../env.ts';
import { callFleet, callQueue } from './calls.ts';

/**
 * Asks a queue for a worker and, where none that is connected serves the model, once more with the pool that the fleet
 * object knows for it. A call that is repeated because the queue restarted has what is left of its deadline.
 * @param now epoch ms
 * @throws HttpError 503, as `callQueue`
 */
export function callWorker(
  env: Env,
  queueId: string,
  wanted: WaitingRequest,
  now: () => number,
): Promise<RequestAnswer> {
  const startedAt = now();
  return callQueue(env, queueId, async (queue) => {
    const ask = (known?: KnownPools) => {
      const left = withTimeLeft(wanted, now() - startedAt);
      return queue.request(known ? { ...left, known } : left);
    };
    const answer = await ask();
    if (!isUnserved(answer)) return answer;
    return resolved(await ask(await knownPools(env, queueId, answer.models)));
  });
}

/** Returns the known pools of these models with the models, as the queue takes them. */
export async function knownPools(
  env: Env,
  queueId: string,
  models: readonly (string | null)[],
): Promise<KnownPools> {
  const pools = await choosePools(env, queueId, [...models]);
  return models.map((model, index) => [model, pools[index]!] as const);
}

/** Returns the known pools of these models, in their order. */
export function choosePools(env: Env, queueId: string, models: (string | null)[]): Promise<PoolChoice[]> {
  return callFleet(env, queueId, (fleet) => fleet.choosePools(models));
}

/** Returns the answer of a queue that was given the pool. */
export function resolved<T extends object>(answer: T | Unserved | undefined): T {
  if (answer && !isUnserved(answer)) return answer;
  throw new Error('the queue asked for a pool that it was given');
}

/**
 * Returns what a stored job waits for: the queue knows its own reasons, the fleet object those of the job's pool.
 * Returns null where the job does not wait, or where one of the two does not answer: the caller still gets the job
 * itself.
 */
export function waitingOfJob(...asked: Parameters<typeof askForJob>): Promise<Waiting | null> {
  return askForJob(...asked).catch(() => null);
}

async function askForJob(env: Env, queueId: string, jobId: string, viewer: Viewer): Promise<Waiting | null> {
  const job = await callQueue(env, queueId, (queue) => queue.waitingJob(jobId, viewer));
  if (job === null) return null;
  const { own, ...asking } = job;
  return own ?? (await callFleet(env, queueId, (fleet) => fleet.whyWaiting(asking)));
}

/**
 * Returns what the lines of batches for a model wait for while the queue does not have them yet, or null where the
 * queue or the fleet object does not answer.
 */
export function waitingOfModel(...asked: Parameters<typeof askForModel>): Promise<Waiting | null> {
  return askForModel(...asked).catch(() => null);
}

async function askForModel(env: Env, queueId: string, model: string | null): Promise<Waiting> {
  const [choice] = await choosePools(env, queueId, [model]);
  if (choice?.kind === 'pool') {
    const asking = { config_id: choice.config_id, model, is_batch: true };
    return await callFleet(env, queueId, (fleet) => fleet.whyWaiting(asking));
  }
  const clause =
    choice?.models === '' || choice === undefined
      ? 'no worker is known yet'
      : `the model "${model ?? ''}" is not served here; models: ${choice.models}`;
  return waitsFor('no_worker', clause, { advice: 'Start a worker for it.' });
}
