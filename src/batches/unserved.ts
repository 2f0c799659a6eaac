import type { Batch } from './batch.ts';
import { findBatch, type StoredBatch, saveBatch } from './batch-table.ts';
import { lineCounts, nextLines, type StoredLine } from './line-table.ts';
import { unservedOutcome } from './outcomes.ts';
import type { LineOutcome } from './output-line.ts';
import type { BatchPorts, Unserved } from './ports.ts';
import { record } from './record.ts';

/** Fails lines for models that nobody serves at once, so that they do not wait until the window of their batch ends. */

type UnservedModel = { model: string } & Unserved;

/** Returns the models of a batch that nobody serves, or null where no worker is known yet. */
export async function unservedModels(
  { sql, queue }: BatchPorts,
  { seq }: StoredBatch,
): Promise<UnservedModel[] | null> {
  const models = lineCounts(sql, seq).map(({ model }) => model);
  const answers = await queue.unserved(models.map((model) => model || null));
  if (answers === null) return null;
  return models.flatMap((model, index) => {
    const answer = answers[index] ?? null;
    return answer === null ? [] : [{ model, ...answer }];
  });
}

export function noteUnserved(batch: Batch, unserved: UnservedModel[] | null): void {
  delete batch.is_unchecked;
  delete batch.unserved;
  if (unserved === null) batch.is_unchecked = true;
  else if (unserved.length > 0) batch.unserved = unserved;
}

/** Asks once more about the models of a batch that began before any worker was known. */
export async function checkAgain(ports: BatchPorts, given: StoredBatch): Promise<void> {
  const unserved = await unservedModels(ports, given);
  const stored = findBatch(ports.sql, given.batch.id, null);
  if (unserved === null || stored?.batch.status !== 'in_progress') return;
  noteUnserved(stored.batch, unserved);
  saveBatch(ports.sql, stored);
}

/** Records some lines of the first unserved model as failed; if none is left, goes on to the next model. */
export async function failUnserved(ports: BatchPorts, stored: StoredBatch, most: number): Promise<void> {
  const { seq, batch } = stored;
  const [first, ...others] = batch.unserved ?? [];
  const lines = first === undefined ? [] : nextLines(ports.sql, seq, first.model, most);
  if (lines.length > 0) {
    const outcomes = lines.map((line): [StoredLine, LineOutcome] => [line, unservedOutcome(batch, line)!]);
    return await record(ports, stored, outcomes);
  }
  noteUnserved(batch, others);
  saveBatch(ports.sql, stored);
}
