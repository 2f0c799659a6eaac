import type { Batch } from './batch.ts';
import { findBatch, type StoredBatch, saveBatch } from './batch-table.ts';
import { moveLines, type StoredLine } from './line-table.ts';
import { count } from './outcomes.ts';
import type { LineOutcome } from './output-line.ts';
import type { BatchPorts } from './ports.ts';

/** The most bytes that one call appends; one line may have more. */
const APPEND_BYTES = 8 * 1024 * 1024;

/**
 * Records the outcomes of lines: those that are in their file already are not added again, then one commit notes and
 * counts all of them.
 */
export async function record(
  { sql, files }: Pick<BatchPorts, 'sql' | 'files'>,
  { seq, batch }: StoredBatch,
  outcomes: readonly [StoredLine, LineOutcome][],
): Promise<void> {
  const bytes: { output?: number; error?: number } = {};
  for (const file of ['output', 'error'] as const) {
    const lines = outcomes
      .filter(([, outcome]) => outcome.file === file)
      .map(([{ number }, { text }]) => ({ key: number, bytes: new TextEncoder().encode(text) }));
    for (const some of inCalls(lines)) bytes[file] = await files.append(fileIdOf(batch, file), some);
  }
  // The batch is read again, since it may have been cancelled meanwhile.
  const stored = findBatch(sql, batch.id, null);
  if (stored === null) return;
  const lines = outcomes.map(([line]) => line);
  const done = new Set(moveLines(sql, seq, lines, 'done'));
  for (const [line, outcome] of outcomes) if (done.has(line)) count(stored.batch, outcome);
  stored.batch.output_bytes = bytes.output ?? stored.batch.output_bytes;
  stored.batch.error_bytes = bytes.error ?? stored.batch.error_bytes;
  saveBatch(sql, stored);
}

function fileIdOf(batch: Batch, file: 'output' | 'error'): string {
  return file === 'output' ? batch.output_file_id : batch.error_file_id;
}

function* inCalls<T extends { bytes: Uint8Array }>(lines: readonly T[]): Generator<T[]> {
  let call: T[] = [];
  let bytes = 0;
  for (const line of lines) {
    if (call.length > 0 && bytes + line.bytes.byteLength > APPEND_BYTES) {
      yield call;
      call = [];
      bytes = 0;
    }
    call.push(line);
    bytes += line.bytes.byteLength;
  }
  if (call.length > 0) yield call;
}
