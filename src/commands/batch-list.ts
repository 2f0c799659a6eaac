import { EXIT } from '../process/index.ts';
import type { QueueTarget } from './ask-queue.ts';
import { BatchApi, type BatchView } from './batch-api.ts';

const LISTED = 20;

/** `worker-vllm batch list`: the newest batches, one a line. */
export async function listBatches(target: QueueTarget): Promise<number> {
  const batches = await new BatchApi(target).list(LISTED);
  if (batches.length === 0) process.stderr.write('There are no batches.\n');
  for (const batch of batches) process.stdout.write(`${lineOf(batch)}\n`);
  return EXIT.ok;
}

/** `worker-vllm batch status ID`: one batch as JSON. */
export async function showBatch(id: string, target: QueueTarget): Promise<number> {
  process.stdout.write(`${JSON.stringify(await new BatchApi(target).get(id), null, 2)}\n`);
  return EXIT.ok;
}

/** `worker-vllm batch cancel ID`. */
export async function cancelBatch(id: string, target: QueueTarget): Promise<number> {
  const { status } = await new BatchApi(target).cancel(id);
  process.stderr.write(`Batch ${id} is ${status.replace('_', ' ')}.\n`);
  return EXIT.ok;
}

function lineOf({ id, status, endpoint, created_at, request_counts }: BatchView): string {
  const { total, completed, failed } = request_counts;
  const at = new Date(created_at * 1000).toISOString().slice(0, 16).replace('T', ' ');
  const done = `${completed}/${total}${failed > 0 ? ` (${failed} failed)` : ''}`;
  return `${id}  ${status.padEnd(11)}  ${done.padEnd(14)}  ${at}Z  ${endpoint}`;
}
