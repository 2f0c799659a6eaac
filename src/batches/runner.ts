import { addFile, removeFile } from '../files/file-index.ts';
import type { BatchStatus } from '../protocol/file-answers.ts';
import { type JobView, lineJobId, lineOfJob } from '../protocol/index.ts';
import { isExpiring, isOver, type NextLine } from './batch.ts';
import { writtenFiles } from './batches.ts';
import { Feeder, Pace, type RunnerSizes } from './feeder.ts';
import { type LineOutcome, notSubmitted, record, settledOutcome } from './outcomes.ts';
import type { BatchPorts } from './ports.ts';
import {
  activeBatches,
  findBatch,
  findOpenLine,
  forgetLines,
  hasOpenLines,
  lineCounts,
  moveLines,
  type StoredBatch,
  type StoredLine,
  saveBatch,
  submittedLines,
  waitingLines,
} from './store.ts';
import { checkAgain, failUnserved, validate } from './validate.ts';

const SIZES: RunnerSizes = { window: { least: 64, slots: 4 }, mostAtOnce: 256 };
/** One request for settled jobs waits this long, ms: a new batch is handled only afterwards. */
const QUESTION_MS = 1000;
/**
 * Settled jobs are gathered for this long, ms, but for no more than a quarter of the time that the least window takes,
 * so that the slots stay busy.
 */
const GATHER_MS = 200;
/** The pause after a call that failed, ms. */
const PAUSE_MS = 2000;
/** Lines that run when a batch is cancelled may still end within this time, ms: they are paid for already. */
const MAY_END_MS = 30_000;

/**
 * Runs all batches of a queue id, one step of each after another. Every step can be repeated: jobs and lines of files
 * have names that follow from their line, and the commit that counts a line also notes it as done.
 */
export class BatchRunner {
  readonly #ports: BatchPorts;
  readonly #sizes: RunnerSizes;
  #isRunning = false;
  /** Whether the queue reports the ends of the lines that it was given. */
  #isListening = false;
  readonly #pace = new Pace();
  readonly #feeder: Feeder;
  /** The epoch ms at which the failed step of a batch is repeated, by batch id; no other batch waits for it. */
  readonly #failing = new Map<string, number>();
  /** A clause about what the lines of each batch that ends early waited for, by batch id; null: that is unknown. */
  readonly #waited = new Map<string, string | null>();

  /** @param sizes smaller sizes than in production let a small test reach what a large installation does */
  constructor(ports: BatchPorts, sizes = SIZES) {
    this.#ports = ports;
    this.#sizes = sizes;
    this.#feeder = new Feeder(ports, this.#pace, sizes);
  }

  /** Starts the runner, unless it is running; called when there may be something to do. */
  wake(): void {
    if (this.#isRunning) return;
    this.#isRunning = true;
    const run = this.#run().finally(() => {
      this.#isRunning = false;
    });
    this.#ports.background(run);
  }

  /** Returns the next line of a batch, preferring one that the queue has; null if there is none. */
  nextLine({ seq, batch }: StoredBatch): NextLine | null {
    const { sql } = this.#ports;
    if (batch.status !== 'in_progress' || batch.unserved) return null;
    const [submitted] = submittedLines(sql, seq, 1);
    const line = submitted ?? waitingLines(sql, seq, 1)[0];
    if (line === undefined) return null;
    return {
      model: line.model || null,
      job_id: submitted ? lineJobId(batch.id, line.number) : null,
      why: this.#feeder.whyNotTaken(line.model, batch.tenant),
    };
  }

  async #run(): Promise<void> {
    while (true) {
      const active = activeBatches(this.#ports.sql);
      if (active.length === 0) return;
      try {
        if (!this.#isListening) await this.#listenAgain(active);
        for (const { batch } of active) await this.#tryStep(batch.id);
        await this.#feeder.feed(inProgress(this.#ports));
        await this.#collect();
      } catch (error) {
        this.#isListening = false;
        this.#ports.log('warn', 'batches wait: the queue or a file cannot be reached', {
          error: String((error as Error)?.message ?? error),
        });
        await this.#ports.sleep(PAUSE_MS);
      }
    }
  }

  /**
   * Listens anew after a start of this object, or of the queue: lines that the queue does not know are submitted again.
   */
  async #listenAgain(active: readonly StoredBatch[]): Promise<void> {
    const { mostAtOnce } = this.#sizes;
    await this.#ports.queue.listenAnew();
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

  async #tryStep(id: string): Promise<void> {
    if (this.#isFailing(id)) return;
    try {
      await this.#step(id);
      this.#failing.delete(id);
    } catch (error) {
      this.#failing.set(id, this.#ports.now() + PAUSE_MS);
      this.#ports.log('warn', 'a batch waits: the queue or a file of it cannot be reached', {
        batch_id: id,
        error: String((error as Error)?.message ?? error),
      });
    }
  }

  #isFailing(id: string): boolean {
    return (this.#failing.get(id) ?? 0) > this.#ports.now();
  }

  async #step(id: string): Promise<void> {
    const stored = findBatch(this.#ports.sql, id, null);
    if (stored === null || isOver(stored.batch.status)) return;
    const { status } = stored.batch;
    if (status === 'finalizing') return await this.#close(stored, 'completed');
    if (status === 'cancelling') return await this.#callBack(stored, 'cancelled');
    if (isExpiring(stored.batch, this.#ports.now())) return await this.#expire(stored);
    if (status === 'validating') return await validate(this.#ports, stored);
    const { unserved, is_unchecked } = stored.batch;
    if (unserved) return await failUnserved(this.#ports, stored, this.#sizes.mostAtOnce);
    if (is_unchecked) await checkAgain(this.#ports, stored);
    if (!hasOpenLines(this.#ports.sql, stored.seq)) this.#become(stored, 'finalizing');
  }

  async #collect(): Promise<void> {
    const { sql } = this.#ports;
    const goesOn = activeBatches(sql).some(
      (stored) => !this.#isFailing(stored.batch.id) && hasNextStep(this.#ports, stored),
    );
    const waitMs = goesOn ? 0 : QUESTION_MS;
    const open = lineCounts(sql);
    if (open.every(({ submitted }) => submitted === 0)) {
      // No line is in the queue, so none can settle.
      if (waitMs > 0) await this.#ports.sleep(waitMs);
      return;
    }
    // Settled jobs are gathered, since the calls and commits of a round cost the same for one line and for many.
    if (waitMs > 0 && open.some(({ waiting }) => waiting > 0))
      await this.#ports.sleep(
        Math.min(GATHER_MS, this.#pace.leastTimeFor(this.#sizes.window.least / 4, this.#ports.now())),
      );
    const jobs = await this.#ports.queue.nextSettled(waitMs);
    if (jobs === null) {
      this.#isListening = false;
      if (activeBatches(this.#ports.sql).length > 0) await this.#ports.sleep(QUESTION_MS);
      return;
    }
    const byBatch = Map.groupBy(jobs, ({ id }) => lineOfJob(id)?.batchId ?? '');
    for (const [id, settled] of byBatch) {
      const stored = findBatch(this.#ports.sql, id, null);
      if (stored) await this.#settle(stored, settled);
    }
    for (const [configId, settled] of Map.groupBy(jobs, ({ config_id }) => config_id)) {
      this.#pace.done(configId, settled.length, this.#ports.now());
    }
  }

  async #settle(stored: StoredBatch, jobs: readonly JobView[]): Promise<void> {
    const outcomes: [StoredLine, LineOutcome][] = [];
    const waited = this.#waited.get(stored.batch.id) ?? null;
    for (const job of jobs) {
      const line = findOpenLine(this.#ports.sql, stored.seq, lineOfJob(job.id)!.line);
      if (line) outcomes.push([line, settledOutcome(stored.batch, line, job, waited)]);
    }
    await record(this.#ports, stored, outcomes);
  }

  /**
   * Ends a batch whose window is over. This is noted before any line is called back, so that what is written about a
   * line stays true even if the clock is set back.
   */
  async #expire(stored: StoredBatch): Promise<void> {
    if (!stored.batch.is_expiring) {
      stored.batch.is_expiring = true;
      saveBatch(this.#ports.sql, stored);
    }
    await this.#callBack(stored, 'expired');
  }

  /** Ends a batch early: lines that the queue has are called back, the others are recorded as not run. */
  async #callBack(stored: StoredBatch, why: 'cancelled' | 'expired'): Promise<void> {
    const { sql, now, queue } = this.#ports;
    const { seq, batch } = stored;
    // The batch's lines were not all read, and none has begun.
    if (batch.in_progress_at === null) return await this.#close(stored, why);
    const waited = await this.#whyWaited(stored);
    const waiting = waitingLines(sql, seq, this.#sizes.mostAtOnce);
    if (waiting.length > 0) {
      const outcomes = waiting.map((line): [StoredLine, LineOutcome] => [
        line,
        notSubmitted(batch, line, why, this.#feeder.whyNotTaken(line.model, batch.tenant) ?? waited),
      ]);
      return await record(this.#ports, stored, outcomes);
    }
    const mayRunUntil = (batch.cancelling_at ?? 0) + MAY_END_MS;
    const submitted = submittedLines(sql, seq);
    // All lines are cancelled at once, so that a slot that one of them frees is not given to the next.
    await Promise.all(
      submitted.map(async ({ number }) => {
        const jobId = lineJobId(batch.id, number);
        const isRunning = (await queue.stateOf(jobId)) === 'leased';
        if (!isRunning || now() >= mayRunUntil) await queue.cancel(jobId);
      }),
    );
    if (submitted.length === 0) await this.#close(stored, why);
  }

  /** Returns what the batch waited for; the queue is asked before its lines are called back, while they still wait. */
  async #whyWaited({ seq, batch }: StoredBatch): Promise<string | null> {
    const known = this.#waited.get(batch.id);
    if (known !== undefined) return known;
    const [line] = submittedLines(this.#ports.sql, seq, 1);
    const why = line ? await this.#ports.queue.whyWaiting(lineJobId(batch.id, line.number)) : null;
    this.#waited.set(batch.id, why);
    return why;
  }

  /** Closes a batch, whose files are complete and listed from now on. */
  async #close({ batch: { id } }: StoredBatch, status: 'completed' | 'cancelled' | 'expired'): Promise<void> {
    const { sql, now, files } = this.#ports;
    const { seq, batch } = findBatch(sql, id, null)!;
    const written = writtenFiles(batch, now());
    for (const { id, expires_at } of written) await files.keep(id, expires_at!);
    for (const file of written) {
      removeFile(sql, file.id);
      addFile(sql, file);
    }
    forgetLines(sql, seq);
    this.#waited.delete(id);
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
    if (isOver(status)) this.#ports.ended(batch);
    const { id, total, completed, failed } = batch;
    this.#ports.log('info', `batch ${status.replace('_', ' ')}`, { batch_id: id, total, completed, failed });
  }
}

/** Returns whether a batch can go on without waiting for any of its lines. */
function hasNextStep({ sql, now }: BatchPorts, { seq, batch }: StoredBatch): boolean {
  const { status } = batch;
  if (status === 'validating' || status === 'finalizing' || batch.unserved) return true;
  const isEnding = status === 'cancelling' || isExpiring(batch, now());
  const open = lineCounts(sql, seq);
  return open.length === 0 || (isEnding && open.some(({ waiting }) => waiting > 0));
}

/** Returns the batches in progress; those whose window is over have begun to end. */
function inProgress({ sql, now }: BatchPorts): StoredBatch[] {
  return activeBatches(sql).filter(
    ({ batch }) => batch.status === 'in_progress' && !isExpiring(batch, now()),
  );
}
