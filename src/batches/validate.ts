import { findFile } from '../files/file-index.ts';
import { joinBytes } from '../protocol/bytes.ts';
import type { Batch, LineFault, Unserved } from './batch.ts';
import { isFault, type Line, readLine, type SplitLine, splitLines } from './input-lines.ts';
import { type LineOutcome, record, unservedOutcome } from './outcomes.ts';
import type { BatchPorts } from './ports.ts';
import {
  activeBatches,
  countNew,
  findBatch,
  firstLines,
  forgetLines,
  insertLine,
  lineCounts,
  nextLines,
  type StoredBatch,
  type StoredLine,
  saveBatch,
} from './store.ts';

/** The last line of a batch may still be read this long after its window, ms. */
const MOST_LATE_MS = 3_600_000;
/** The number of bytes read and checked at a time: with more, the garbage of each step would make the process large. */
const PIECE_BYTES = 1024 * 1024;
/** The most faults that are reported of one batch. */
const MOST_FAULTS = 100;
/** The most models of one batch: the queue is asked about each of them again and again. */
const MOST_MODELS = 1000;
/** The longest line, since a longer one could not be submitted: the body of a request is bounded. */
const LINE_BYTES = 20 * 1024 * 1024;

/**
 * Reads a piece of a batch's input and stores its lines; at the input's end, begins or fails the batch. Called until
 * the batch is no longer `validating`; its row says how far the input was read.
 */
export async function validate(ports: BatchPorts, given: StoredBatch): Promise<void> {
  const { sql, files } = ports;
  const { input_file_id, scanned_bytes } = given.batch;
  // The input file may expire before the batch does.
  if (scanned_bytes === 0) await keepInput(ports, given.batch);
  const size = await files.size(input_file_id);
  const piece = size === null ? null : await readPiece(ports, input_file_id, scanned_bytes, size);
  const stored = findBatch(sql, given.batch.id, null);
  if (stored?.batch.status !== 'validating') return;
  if (piece === null || size === null) {
    return fail(ports, stored, [
      about('file_not_found', `There is no file ${input_file_id}; it may have expired.`),
    ]);
  }
  if (piece.byteLength === 0 && scanned_bytes < size) {
    return fail(ports, stored, [
      about('file_not_found', `The content of ${input_file_id} is lost: upload it again.`),
    ]);
  }
  const { batch } = stored;
  const isLast = scanned_bytes + piece.byteLength >= size;
  const before = { bytes: scanned_bytes, lines: batch.scanned_lines };
  const { lines, taken, passed } = splitLines(piece, before, isLast);
  const models: string[] = [];
  for (const line of lines) {
    batch.found_lines += 1;
    if (batch.found_lines > batch.most_lines) continue;
    const noted = noteLine(ports, stored, line);
    if (!isFault(noted)) models.push(noted.model);
    else if (batch.faults.length < MOST_FAULTS) batch.faults.push(noted);
  }
  countNew(sql, stored.seq, models);
  batch.scanned_lines += passed;
  batch.scanned_bytes += taken;
  if (batch.scanned_bytes < size && taken > 0) return saveBatch(sql, stored);
  const fault = faultsIn(ports, stored, taken === 0 && !isLast);
  if (fault !== null) return fail(ports, stored, fault);
  // The progress is saved for the case that `begin` cannot ask which models are served.
  saveBatch(sql, stored);
  await begin(ports, stored);
}

/** Stores the bytes of a batch's input until the batch ends, even if the file is removed from the list before. */
async function keepInput({ sql, files, now }: BatchPorts, batch: Batch): Promise<void> {
  const file = findFile(sql, batch.input_file_id, null, now());
  if (file === null || file.expires_at === null || file.expires_at > batch.expires_at) return;
  // Other batches may read the file as well, with longer windows.
  const ends = activeBatches(sql).flatMap(({ batch: one }) =>
    one.input_file_id === file.id ? [one.expires_at] : [],
  );
  await files.keep(file.id, Math.max(batch.expires_at, ...ends) + MOST_LATE_MS);
}

async function readPiece(
  { files }: BatchPorts,
  fileId: string,
  offset: number,
  size: number,
): Promise<Uint8Array> {
  const pieces: Uint8Array[] = [];
  let length = 0;
  // One line may be longer than what one call returns.
  while (offset + length < size && length <= LINE_BYTES) {
    const piece = await files.read(fileId, offset + length, PIECE_BYTES);
    pieces.push(piece);
    length += piece.byteLength;
    if (piece.byteLength === 0 || piece.includes(0x0a)) break;
  }
  return pieces.length === 1 ? pieces[0]! : joinBytes(pieces);
}

/** Stores a line. @returns the line, or what is wrong with it */
function noteLine(
  { sql, routes }: BatchPorts,
  { seq, batch }: StoredBatch,
  { number, bytes, offset, length }: SplitLine,
): Line | LineFault {
  const line = readLine(bytes, number, batch.endpoint, routes);
  if (isFault(line) || insertLine(sql, seq, { number, offset, length, ...line })) return line;
  const message = `custom_id: ${JSON.stringify(line.custom_id)} is also that of a line before.`;
  return { code: 'duplicate_custom_id', message, param: 'custom_id', line: number };
}

/** Returns what is wrong with the input as a whole, or null. */
function faultsIn(
  { sql }: BatchPorts,
  { seq, batch }: StoredBatch,
  isLineTooLong: boolean,
): LineFault[] | null {
  if (isLineTooLong) {
    const line = batch.scanned_lines + 1;
    return [{ ...about('line_too_long', 'This line is longer than 20 MiB.'), line }];
  }
  if (batch.found_lines > batch.most_lines) {
    const message = `The file has ${batch.found_lines} lines; a batch may have ${batch.most_lines}.`;
    return [about('too_many_tasks', message)];
  }
  if (batch.found_lines === 0) return [about('empty_file', 'The file has no lines.')];
  const models = lineCounts(sql, seq).length;
  if (models > MOST_MODELS) {
    const message = `The lines name ${models} models; those of a batch may name ${MOST_MODELS}.`;
    return [about('too_many_models', message)];
  }
  return batch.faults.length > 0 ? batch.faults : null;
}

/** Begins the batch, or fails it if nobody serves any of its models. */
async function begin(ports: BatchPorts, given: StoredBatch): Promise<void> {
  const unserved = await unservedModels(ports, given);
  const stored = findBatch(ports.sql, given.batch.id, null);
  if (stored?.batch.status !== 'validating') return;
  const { seq, batch } = stored;
  if (unserved?.length === lineCounts(ports.sql, seq).length) {
    const faultOf = new Map(unserved.map(({ model, code, message }) => [model, { code, message }]));
    const faults = firstLines(ports.sql, seq, MOST_FAULTS).map(({ number, model }) => ({
      ...faultOf.get(model)!,
      param: 'body.model',
      line: number,
    }));
    return fail(ports, stored, faults);
  }
  noteUnserved(batch, unserved);
  batch.status = 'in_progress';
  batch.in_progress_at = ports.now();
  batch.total = batch.found_lines;
  saveBatch(ports.sql, stored);
  ports.log('info', 'batch in progress', { batch_id: batch.id, lines: batch.total });
}

function fail(ports: BatchPorts, stored: StoredBatch, faults: LineFault[]): void {
  const { seq, batch } = stored;
  batch.status = 'failed';
  batch.failed_at = ports.now();
  batch.faults = faults;
  forgetLines(ports.sql, seq);
  saveBatch(ports.sql, stored);
  ports.ended(batch);
  const [{ code, line } = { code: null, line: null }] = faults;
  ports.log('info', 'batch failed: its input is not in order', { batch_id: batch.id, code, line });
}

function about(code: string, message: string): LineFault {
  return { code, message, param: null, line: null };
}

type UnservedModel = { model: string } & Unserved;

/** Returns the models of a batch that nobody serves, or null if no worker is known yet. */
async function unservedModels(
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

function noteUnserved(batch: Batch, unserved: UnservedModel[] | null): void {
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

/**
 * Records some lines of the first unserved model as failed, so that they do not wait until the window of their batch
 * ends; if none is left, goes on to the next model.
 */
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
