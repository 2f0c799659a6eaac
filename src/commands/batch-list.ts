import type { OpenAI } from 'openai';
import { EXIT } from '../process/index.ts';
import { openAIAt } from './ask-openai.ts';
import type { QueueTarget } from './ask-queue.ts';
import { print, printNote } from './print.ts';

const LISTED = 20;
const NONE: OpenAI.BatchRequestCounts = { total: 0, completed: 0, failed: 0 };

/** Runs `worker-vllm batch list`: prints the newest batches, one a line. */
export async function listBatches(target: QueueTarget): Promise<number> {
  const { data: batches } = await openAIAt(target)((client) => client.batches.list({ limit: LISTED }));
  if (batches.length === 0) printNote('There are no batches.');
  for (const batch of batches) print(lineOf(batch));
  return EXIT.ok;
}

/** Runs `worker-vllm batch status ID`: prints one batch as JSON. */
export async function showBatch(id: string, target: QueueTarget): Promise<number> {
  const batch = await openAIAt(target)((client) => client.batches.retrieve(id));
  print(JSON.stringify(batch, null, 2));
  return EXIT.ok;
}

/** Runs `worker-vllm batch cancel ID`. */
export async function cancelBatch(id: string, target: QueueTarget): Promise<number> {
  const { status } = await openAIAt(target)((client) => client.batches.cancel(id));
  printNote(`Batch ${id} is ${status.replace('_', ' ')}.`);
  return EXIT.ok;
}

function lineOf({ id, status, endpoint, created_at, request_counts }: OpenAI.Batch): string {
  const { total, completed, failed } = request_counts ?? NONE;
  const at = new Date(created_at * 1000).toISOString().slice(0, 16).replace('T', ' ');
  const done = `${completed}/${total}${failed > 0 ? ` (${failed} failed)` : ''}`;
  return `${id}  ${status.padEnd(11)}  ${done.padEnd(14)}  ${at}Z  ${endpoint}`;
}
