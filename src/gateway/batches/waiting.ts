import type { Batch } from '../../batches/batch.ts';
import { type Waiting, waitsFor } from '../../protocol/index.ts';
import type { Env } from '../env.ts';
import { callBatches } from '../objects/calls.ts';
import { waitingOfJob, waitingOfModel } from '../objects/waiting.ts';
import { ownModels } from './queue.ts';

/** Returns what the next line of a batch waits for, or null where that line runs or the batch does not. */
export async function waitingOfBatch(env: Env, queueId: string, batch: Batch): Promise<Waiting | null> {
  if (batch.status !== 'in_progress') return null;
  const line = await callBatches(env, queueId, (batches) => batches.nextLine(batch.id));
  if (line === null) return null;
  if (line.job_id !== null) return await waitingOfJob(env, queueId, line.job_id, null);
  const [model] = ownModels(env, [line.model]);
  const waiting = await waitingOfModel(env, queueId, model ?? null);
  const isOfPool = waiting !== null && waiting.code !== 'turn' && waiting.code !== 'busy';
  return line.why === null || isOfPool ? waiting : waitsFor('queue_full', line.why.replace(/\.$/, ''));
}
