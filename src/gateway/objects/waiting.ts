import { type Waiting, waitsFor } from '../../protocol/index.ts';
import type { Viewer } from '../../queue/rpc.ts';
import type { Env } from '../env.ts';
import { callFleet, callQueue } from './calls.ts';
import { choosePools } from './work.ts';

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
