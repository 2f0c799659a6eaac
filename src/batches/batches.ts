import type { Alarm, Sql } from '../durable/ports.ts';
import { type FileRecord, findFile, forgetExpired, removeFile } from '../files/file-index.ts';
import { type Backlog, type Batch, isOver, type NewBatch, type RemoveFileAnswer } from './batch.ts';
import { NO_USAGE } from './outcomes.ts';
import type { BatchPorts } from './ports.ts';
import {
  activeBatches,
  findBatch,
  findByIdempotencyKey,
  forgetBatches,
  insertBatch,
  isRead,
  lineCounts,
  saveBatch,
} from './store.ts';

type Ports = Pick<BatchPorts, 'sql' | 'now'>;

/** Creates a batch, or finds the one under the same idempotency key. @returns null if there is no such input file */
export function createBatch(
  { sql, now }: Ports,
  asked: NewBatch,
  idempotencyKey: string | null,
): Batch | null {
  // Each tenant has idempotency keys of its own.
  const key = idempotencyKey === null ? null : JSON.stringify([asked.tenant, idempotencyKey]);
  const existing = key === null ? null : findByIdempotencyKey(sql, key);
  if (existing !== null) return existing.batch;
  if (findFile(sql, asked.input_file_id, asked.tenant, now()) === null) return null;
  const batch: Batch = {
    ...asked,
    status: 'validating',
    is_expiring: false,
    faults: [],
    scanned_bytes: 0,
    scanned_lines: 0,
    found_lines: 0,
    total: 0,
    completed: 0,
    failed: 0,
    output_lines: 0,
    output_bytes: 0,
    error_lines: 0,
    error_bytes: 0,
    error_counts: {},
    usage: { ...NO_USAGE },
    in_progress_at: null,
    finalizing_at: null,
    completed_at: null,
    failed_at: null,
    expired_at: null,
    cancelling_at: null,
    cancelled_at: null,
  };
  insertBatch(sql, batch, key);
  return batch;
}

/** Cancels a batch; a batch that has ended, or is ending, stays as it is. @returns null if there is none */
export function cancelBatch({ sql, now }: Ports, id: string, viewer: string | null): Batch | null {
  const stored = findBatch(sql, id, viewer);
  if (stored === null) return null;
  const { batch } = stored;
  const isEnding = batch.status === 'cancelling' || batch.status === 'finalizing' || batch.is_expiring;
  if (isOver(batch.status) || isEnding) return batch;
  batch.status = 'cancelling';
  batch.cancelling_at = now();
  saveBatch(sql, stored);
  return batch;
}

/** Returns a file that is listed, or the part that a batch has written so far of one that will be. */
export function fileOf({ sql, now }: Ports, id: string, viewer: string | null): FileRecord | null {
  const listed = findFile(sql, id, viewer, now());
  if (listed !== null) return listed;
  for (const { batch } of activeBatches(sql)) {
    const file = writtenFiles(batch, batch.expires_at).find((one) => one.id === id);
    if (file && (viewer === null || viewer === file.tenant)) return file;
  }
  return null;
}

/** Returns the files of a batch that have lines. @param endsAt when the batch ended, or is to end, epoch ms */
export function writtenFiles(batch: Batch, endsAt: number): FileRecord[] {
  const files = [
    { id: batch.output_file_id, name: 'output', lines: batch.output_lines, bytes: batch.output_bytes },
    { id: batch.error_file_id, name: 'error', lines: batch.error_lines, bytes: batch.error_bytes },
  ];
  return files
    .filter(({ lines }) => lines > 0)
    .map(({ id, name, bytes }) => ({
      id,
      tenant: batch.tenant,
      filename: `${batch.id}_${name}.jsonl`,
      purpose: 'batch_output',
      bytes,
      created_at: endsAt,
      expires_at: endsAt + batch.output_kept_ms,
    }));
}

/** Removes a file from the list; the caller removes its bytes. */
export function unlistFile(ports: Ports, id: string, viewer: string | null): RemoveFileAnswer {
  const { sql, now } = ports;
  if (fileOf(ports, id, viewer) === null) return 'unknown';
  if (isRead(sql, id) || findFile(sql, id, viewer, now()) === null) return 'in_use';
  removeFile(sql, id);
  return 'removed';
}

const MINUTE_MS = 60_000;

/** Sums up the open lines of batches by model and window; windows that end within the same minute count as one. */
export function backlog(sql: Sql): Backlog[] {
  const windowEnds = new Map<number, number>();
  for (const { seq, batch } of activeBatches(sql)) {
    if (batch.status === 'in_progress') windowEnds.set(seq, batch.expires_at);
  }
  const found = new Map<string, Backlog>();
  for (const { batch, model, waiting, submitted } of lineCounts(sql)) {
    const window_ends_at = windowEnds.get(batch);
    if (window_ends_at === undefined) continue;
    const key = `${Math.floor(window_ends_at / MINUTE_MS)} ${model}`;
    const known = found.get(key) ?? { model: model || null, lines: 0, in_queue: 0, window_ends_at };
    found.set(key, {
      ...known,
      lines: known.lines + waiting + submitted,
      in_queue: known.in_queue + submitted,
      window_ends_at: Math.min(known.window_ends_at, window_ends_at),
    });
  }
  return [...found.values()].sort((one, other) => one.window_ends_at - other.window_ends_at);
}

/** The interval of the alarm while batches run, ms: the alarm restarts an object that the runtime has ended. */
const LOOK_AGAIN_MS = 30_000;
/** A batch is stored for this long after it was created, ms. */
const BATCH_KEPT_MS = 365 * 86_400_000;

/**
 * Forgets what is too old, and sets the alarm again: called at the start of the object, after any call that may have
 * begun a batch, and when the alarm rings.
 * @returns whether there are batches to be run
 */
export function lookAfter({ sql, now }: Pick<BatchPorts, 'sql' | 'now'>, alarm: Alarm): boolean {
  forgetBatches(sql, now() - BATCH_KEPT_MS);
  const expires = forgetExpired(sql, now());
  const isActive = activeBatches(sql).length > 0;
  const next = isActive ? now() + LOOK_AGAIN_MS : expires;
  const armed = alarm.get();
  if (next !== null && (armed === null || armed > next || armed <= now())) alarm.set(next);
  return isActive;
}
