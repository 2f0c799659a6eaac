import { standsStill } from '../durable/machine-time.ts';
import { addFile, removeFile } from '../files/file-index.ts';
import type { JobView } from '../protocol/index.ts';
import { type Batch, type BatchStatus, isOver, lineJobId, lineOfJob } from './batch.ts';
import { activeBatches, findBatch, type StoredBatch, saveBatch } from './batch-table.ts';
import { requestOf } from './line.ts';
import {
  findOpenLine,
  forgetLines,
  hasOpenLines,
  lineCounts,
  moveLines,
  nextLines,
  type StoredLine,
  submittedLines,
  waitingLines,
} from './line-table.ts';
import { count, notSubmitted, refusal, settledOutcome } from './outcomes.ts';
import type { LineOutcome } from './output-line.ts';
import type { BatchPorts, LineJob } from './ports.ts';
import { validate } from './validate.ts';

/** How much is done at a time. */
export interface RunnerSizes {
  /** Lines of a batch that are in the queue: enough to keep all slots busy, few to call back. */
  window: { least: number; slots: number };
  /** Lines submitted in one call, and outcomes written in one. */
  mostAtOnce: number;
}

const SIZES: RunnerSizes = { window: { least: 64, slots: 4 }, mostAtOnce: 256 };
/** How long one question for what has settled waits, ms: a new batch is seen to afterwards. */
const QUESTION_MS = 1000;
/** Before lines that the queue did not take are submitted again, and after a call that failed, ms. */
const PAUSE_MS = 2000;
/** What runs when a batch is cancelled may end within this time, ms: it is paid for already. */
const MAY_END_MS = 30_000;

/**
 * Runs all batches of a queue id, one after another a step each. Whatever it does it can do again: jobs and lines of
 * files have names that follow from their line, and what is done is noted in the same commit that counts it.
 */
export class BatchRunner {
  readonly #ports: BatchPorts;
  readonly #sizes: RunnerSizes;
  #running: Promise<void> | null = null;
  /** The queue tells what settles of the lines that it was given. */
  #isListening = false;
  /** Batches whose lines the queue did not take, and when they are tried again, epoch ms. */
  readonly #paused = new Map<string, number>();

  #isEnding = false;

  /** @param sizes others than in production make a small world meet what a large one does */
  constructor(ports: BatchPorts, sizes = SIZES) {
    this.#ports = ports;
    this.#sizes = sizes;
  }

  /** There is, or may be, something to do. */
  wake(): void {
    this.#running ??= this.#run().finally(() => {
      this.#running = null;
    });
  }

  /** @returns whether the object ends, because its clock was set back: it would wait until the clock is there again */
  watchClock(): boolean {
    const { now, machineTime, startAgain, log } = this.#ports;
    if (this.#isEnding || !standsStill(now(), machineTime())) return this.#isEnding;
    this.#isEnding = true;
    log('warn', 'the clock was set back; the object of batches starts again to take it');
    startAgain();
    return true;
  }

  async #run(): Promise<void> {
    while (!this.watchClock()) {
      const active = activeBatches(this.#ports.sql);
      if (active.length === 0) return;
      try {
        if (!this.#isListening) await this.#listenAgain(active);
        for (const { batch } of byLatestStart(active)) await this.#step(batch.id);
        await this.#collect();
      } catch (error) {
        this.#isListening = false;
        this.#ports.log('warn', 'batches wait: the queue or a file cannot be reached', {
          error: String((error as Error)?.message ?? error),
        });
        await this.#pause(PAUSE_MS);
      }
    }
  }

  /** Not where the clock was set back: the timer would not come. */
  async #pause(ms: number): Promise<void> {
    if (!this.watchClock()) await this.#ports.sleep(ms);
  }

  /** After a start of this object, or of the queue: lines that the queue does not know are submitted again. */
  async #listenAgain(active: readonly StoredBatch[]): Promise<void> {
    const { mostAtOnce } = this.#sizes;
    for (const { seq, batch } of active) {
      const lines = submittedLines(this.#ports.sql, seq);
      for (let at = 0; at < lines.length; at += mostAtOnce) {
        const asked = new Map(
          lines.slice(at, at + mostAtOnce).map((line) => [lineJobId(batch.id, line.number), line]),
        );
        const unknown = await this.#ports.queue.listen([...asked.keys()]);
        const lost = unknown.flatMap((id) => asked.get(id) ?? []);
        moveLines(this.#ports.sql, seq, lost, 'waiting');
      }
    }
    this.#isListening = true;
  }

  async #step(id: string): Promise<void> {
    const stored = findBatch(this.#ports.sql, id, null);
    if (stored === null || isOver(stored.batch.status)) return;
    const { status, expires_at } = stored.batch;
    if (status === 'finalizing') return await this.#close(stored, 'completed');
    if (status === 'cancelling') return await this.#callBack(stored, 'cancelled');
    if (this.#ports.now() >= expires_at) return await this.#callBack(stored, 'expired');
    if (status === 'validating') return await validate(this.#ports, stored);
    await this.#feed(stored);
  }

  async #feed(stored: StoredBatch): Promise<void> {
    const { sql, now, queue, files } = this.#ports;
    const { seq, batch } = stored;
    if ((this.#paused.get(batch.id) ?? 0) > now()) return;
    this.#paused.delete(batch.id);
    if (!hasOpenLines(sql, seq)) return this.#become(stored, 'finalizing');
    const { window, mostAtOnce } = this.#sizes;
    const wanted = Math.max(window.least, window.slots * (await queue.slots()));
    const counts = lineCounts(sql, seq);
    const submitted = counts.reduce((sum, { submitted }) => sum + submitted, 0);
    const room = Math.min(mostAtOnce, wanted - submitted);
    if (room <= 0) return;
    const lines = counts.flatMap(({ model }) => nextLines(sql, seq, model, room)).slice(0, room);
    if (lines.length === 0) return;
    const jobs = await Promise.all(lines.map((line) => this.#jobOf(batch, line, files)));
    // Noted before the queue has them: after a crash in between it is asked which of them it knows.
    moveLines(sql, seq, lines, 'submitted');
    const answers = await queue.submit(jobs);
    const refused: [StoredLine, LineOutcome][] = [];
    for (const [index, answer] of answers.entries()) {
      const line = lines[index]!;
      if (answer === 'submitted') continue;
      if ('wait' in answer) {
        moveLines(sql, seq, [line], 'waiting');
        this.#paused.set(batch.id, now() + PAUSE_MS);
      } else refused.push([line, refusal(batch, line, answer.refused)]);
    }
    if (refused.length > 0) await this.#write(stored, refused);
  }

  async #jobOf(batch: Batch, line: StoredLine, files: BatchPorts['files']): Promise<LineJob> {
    const bytes = await files.read(batch.input_file_id, line.offset, line.length);
    const text = new TextDecoder().decode(bytes).trim();
    return {
      id: lineJobId(batch.id, line.number),
      tenant: batch.tenant,
      path: batch.endpoint,
      ...requestOf(text),
      deadline_seconds: Math.max(1, (batch.expires_at - this.#ports.now()) / 1000),
    };
  }

  async #collect(): Promise<void> {
    const jobs = await this.#ports.queue.nextSettled(QUESTION_MS);
    if (jobs === null) {
      this.#isListening = false;
      if (activeBatches(this.#ports.sql).length > 0) await this.#pause(QUESTION_MS);
      return;
    }
    const byBatch = new Map<string, JobView[]>();
    for (const job of jobs) {
      const batchId = lineOfJob(job.id)?.batchId;
      if (batchId !== undefined) byBatch.set(batchId, [...(byBatch.get(batchId) ?? []), job]);
    }
    for (const [id, settled] of byBatch) {
      const stored = findBatch(this.#ports.sql, id, null);
      if (stored) await this.#settle(stored, settled);
    }
  }

  async #settle(stored: StoredBatch, jobs: readonly JobView[]): Promise<void> {
    const outcomes: [StoredLine, LineOutcome][] = [];
    for (const job of jobs) {
      const line = findOpenLine(this.#ports.sql, stored.seq, lineOfJob(job.id)!.line);
      if (line) outcomes.push([line, settledOutcome(stored.batch, line, job)]);
    }
    await this.#write(stored, outcomes);
  }

  /** Lines that are in their file already are not added again; then one commit notes and counts them. */
  async #write({ seq, batch }: StoredBatch, outcomes: [StoredLine, LineOutcome][]): Promise<void> {
    const { sql, files } = this.#ports;
    for (const file of ['output', 'error'] as const) {
      const lines = outcomes
        .filter(([, outcome]) => outcome.file === file)
        .map(([{ number }, { text }]) => ({ key: number, bytes: new TextEncoder().encode(text) }));
      if (lines.length > 0) await files.append(fileIdOf(batch, file), lines);
    }
    // Read again: it may have been cancelled meanwhile.
    const stored = findBatch(sql, batch.id, null);
    if (stored === null) return;
    const done = new Set(
      moveLines(
        sql,
        seq,
        outcomes.map(([line]) => line),
        'done',
      ),
    );
    for (const [line, outcome] of outcomes) if (done.has(line)) count(stored.batch, outcome);
    saveBatch(sql, stored);
  }

  /** Ends early: what runs is called back, what has not begun is written down as not run. */
  async #callBack(stored: StoredBatch, why: 'cancelled' | 'expired'): Promise<void> {
    const { sql, now, queue } = this.#ports;
    const { seq, batch } = stored;
    const waiting = waitingLines(sql, seq, this.#sizes.mostAtOnce);
    if (waiting.length > 0) {
      const outcomes = waiting.map((line): [StoredLine, LineOutcome] => [
        line,
        notSubmitted(batch, line, why),
      ]);
      return await this.#write(stored, outcomes);
    }
    const mayRunUntil = (batch.cancelling_at ?? 0) + MAY_END_MS;
    const submitted = submittedLines(sql, seq);
    for (const { number } of submitted) {
      const jobId = lineJobId(batch.id, number);
      const isRunning = (await queue.stateOf(jobId)) === 'leased';
      if (!isRunning || now() >= mayRunUntil) await queue.cancel(jobId);
    }
    if (submitted.length === 0) await this.#close(stored, why);
  }

  /** Its files are complete: from now on they are listed. */
  async #close({ batch: { id } }: StoredBatch, status: 'completed' | 'cancelled' | 'expired'): Promise<void> {
    const { sql, now, files } = this.#ports;
    const { seq, batch } = findBatch(sql, id, null)!;
    const expires_at = now() + batch.output_kept_ms;
    const written = (['output', 'error'] as const).filter((file) => linesOf(batch, file) > 0);
    const sizes = new Map<'output' | 'error', number>();
    for (const file of written) {
      sizes.set(file, await files.append(fileIdOf(batch, file), []));
      await files.keep(fileIdOf(batch, file), expires_at);
    }
    for (const [file, bytes] of sizes) {
      const { tenant } = batch;
      const fileId = fileIdOf(batch, file);
      removeFile(sql, fileId);
      const filename = `${batch.id}_${file}.jsonl`;
      addFile(sql, {
        id: fileId,
        tenant,
        filename,
        purpose: 'batch_output',
        bytes,
        created_at: now(),
        expires_at,
      });
    }
    forgetLines(sql, seq);
    this.#become({ seq, batch }, status);
  }

  #become(stored: StoredBatch, status: BatchStatus): void {
    const { batch } = stored;
    batch.status = status;
    if (status === 'finalizing') batch.finalizing_at = this.#ports.now();
    if (status === 'completed') batch.completed_at = this.#ports.now();
    if (status === 'cancelled') batch.cancelled_at = this.#ports.now();
    if (status === 'expired') batch.expired_at = this.#ports.now();
    saveBatch(this.#ports.sql, stored);
    const { id, total, completed, failed } = batch;
    this.#ports.log('info', `batch ${status.replace('_', ' ')}`, { batch_id: id, total, completed, failed });
  }
}

/** Those whose window ends first go first. */
function byLatestStart(active: readonly StoredBatch[]): StoredBatch[] {
  return [...active].sort((a, b) => a.batch.expires_at - b.batch.expires_at);
}

function fileIdOf(batch: Batch, file: 'output' | 'error'): string {
  return file === 'output' ? batch.output_file_id : batch.error_file_id;
}

function linesOf(batch: Batch, file: 'output' | 'error'): number {
  return file === 'output' ? batch.output_lines : batch.error_lines;
}
