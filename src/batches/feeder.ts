import { lineJobId } from '../protocol/index.ts';
import type { Batch } from './batch.ts';
import type { StoredBatch } from './batch-table.ts';
import { requestOf } from './line.ts';
import { lineCounts, moveLines, nextLines, type StoredLine } from './line-table.ts';
import { refusal } from './outcomes.ts';
import type { LineOutcome } from './output-line.ts';
import type { Pace } from './pace.ts';
import type { BatchPorts, BatchSlots, LineJob } from './ports.ts';
import { record } from './record.ts';
import { type Contender, shareOut } from './share-out.ts';

/** Bounds for the work of one step. */
export interface RunnerSizes {
  /** The lines of a pool that are in the queue: enough to keep its slots busy, few to call back. */
  window: { least: number; slots: number };
  /** The most lines that one call submits, and the most outcomes that one records. */
  mostAtOnce: number;
}

/** The most bytes of lines submitted in one call; one line may have more. */
const MOST_BYTES = 8 * 1024 * 1024;
/** The pause before lines that the queue did not accept are submitted again, ms. */
const PAUSE_MS = 2000;

/** The lines of a batch for one model. */
interface Candidate extends Contender {
  stored: StoredBatch;
  model: string;
}

interface Chosen {
  candidate: Candidate;
  line: StoredLine;
}

/** Keeps a window of lines of each pool in the queue: chooses which lines go next, and handles the queue's answers. */
export class Feeder {
  readonly #ports: BatchPorts;
  readonly #pace: Pace;
  readonly #sizes: RunnerSizes;
  /**
   * The epoch ms until which the queue accepts no more lines, and why, by model and tenant. After that a single line
   * tries again.
   */
  readonly #paused = new Map<string, { until: number; why: string }>();
  /** The epoch ms until which a batch's file cannot be read, by batch id. */
  readonly #unreadable = new Map<string, number>();

  constructor(ports: BatchPorts, pace: Pace, sizes: RunnerSizes) {
    this.#ports = ports;
    this.#pace = pace;
    this.#sizes = sizes;
  }

  /** Submits the next lines of all pools. @param active the batches that are in progress */
  async feed(active: readonly StoredBatch[]): Promise<void> {
    const { window, mostAtOnce } = this.#sizes;
    const counts = lineCounts(this.#ports.sql);
    const models = [...new Set(counts.map(({ model }) => model))];
    if (models.length === 0) return;
    const slots = await this.#ports.queue.slots(models.map((model) => model || null));
    const slotsOf = new Map(models.map((model, index) => [model, slots[index]!]));
    const batches = new Map(active.map((stored) => [stored.seq, stored]));
    const byPool = Map.groupBy(counts, ({ model }) => poolOf(model, slotsOf.get(model)!));
    // Lines for models that no worker serves are submitted together, since a batch may name a thousand such models.
    let unserved = new Map<Candidate, number>();
    for (const [pool, lines] of byPool) {
      const { config_id, slots: usable } = slotsOf.get(lines[0]!.model)!;
      const submitted = lines.reduce((sum, line) => sum + line.submitted, 0);
      const places = Math.max(window.least, window.slots * usable) - submitted;
      const candidates = lines.flatMap(({ batch, model, ...line }) => {
        const stored = batches.get(batch);
        const isServed = !stored?.batch.unserved?.some((one) => one.model === model);
        return stored && isServed ? this.#candidate(stored, model, line, pool) : [];
      });
      const shares = shareOut(candidates, Math.min(mostAtOnce, places));
      if (config_id !== null) {
        if (shares.size > 0) await this.#submit(shares);
        continue;
      }
      for (const [candidate, share] of shares) unserved.set(candidate, share);
      if (unserved.size < mostAtOnce) continue;
      await this.#submit(unserved);
      unserved = new Map();
    }
    if (unserved.size > 0) await this.#submit(unserved);
  }

  #candidate(
    stored: StoredBatch,
    model: string,
    { waiting, submitted }: { waiting: number; submitted: number },
    pool: string,
  ): Candidate {
    const { id, tenant, expires_at } = stored.batch;
    const now = this.#ports.now();
    if ((this.#unreadable.get(id) ?? 0) > now) waiting = 0;
    const latest_start = expires_at - this.#pace.timeFor(pool, waiting + submitted, now);
    const paused = this.#paused.get(pauseKey({ model, tenant }))?.until;
    const may = paused === undefined ? waiting : Math.min(waiting, paused > now ? 0 : 1);
    return { stored, model, tenant, waiting: may, submitted, latest_start };
  }

  async #submit(shares: ReadonlyMap<Candidate, number>): Promise<void> {
    const { sql, queue } = this.#ports;
    const chosen = await this.#read(this.#choose(shares));
    const jobs = chosen.flatMap(({ job }) => job ?? []);
    // The lines are noted before the queue has them: after a crash in between, the queue is asked which of them it
    // knows.
    for (const [{ stored }, lines] of Map.groupBy(chosen, ({ candidate }) => candidate)) {
      const readable = lines.filter(({ job }) => job !== null).map(({ line }) => line);
      moveLines(sql, stored.seq, readable, 'submitted');
    }
    const answers = (jobs.length > 0 ? await queue.submit(jobs) : []).values();
    const refused: { candidate: Candidate; outcome: [StoredLine, LineOutcome] }[] = [];
    for (const { candidate, line, job } of chosen) {
      const answer = job === null ? UNREADABLE : answers.next().value!;
      if (answer === 'submitted') this.#paused.delete(pauseKey(candidate));
      else if ('wait' in answer) this.#giveBack(candidate, line, answer.wait);
      else
        refused.push({ candidate, outcome: [line, refusal(candidate.stored.batch, line, answer.refused)] });
    }
    for (const [{ stored }, of] of Map.groupBy(refused, ({ candidate }) => candidate)) {
      await record(
        this.#ports,
        stored,
        of.map(({ outcome }) => outcome),
      );
    }
  }

  /** Chooses as many lines of the shares as one call carries. */
  #choose(shares: ReadonlyMap<Candidate, number>): Chosen[] {
    const chosen: Chosen[] = [];
    let bytes = 0;
    for (const [candidate, most] of shares) {
      for (const line of nextLines(this.#ports.sql, candidate.stored.seq, candidate.model, most)) {
        bytes += line.length;
        if (chosen.length > 0 && bytes > MOST_BYTES) return chosen;
        chosen.push({ candidate, line });
      }
    }
    return chosen;
  }

  #giveBack(candidate: Candidate, line: StoredLine, why: string): void {
    moveLines(this.#ports.sql, candidate.stored.seq, [line], 'waiting');
    this.#paused.set(pauseKey(candidate), { until: this.#ports.now() + PAUSE_MS, why });
  }

  /**
   * Returns why the queue does not accept this tenant's lines for a model, as a clause, or null where it accepts them
   * or was not asked yet.
   */
  whyNotTaken(model: string, tenant: string | null): string | null {
    return this.#paused.get(pauseKey({ model, tenant }))?.why ?? null;
  }

  /**
   * Makes the jobs of lines, by one call to each file, without the lines of a file that cannot be read now. A job is
   * null if its line can never be read again.
   */
  async #read(chosen: readonly Chosen[]): Promise<(Chosen & { job: LineJob | null })[]> {
    const read = [...Map.groupBy(chosen, ({ candidate }) => candidate.stored)].map(
      async ([{ batch }, of]) => {
        const parts = of.map(({ line: { offset, length } }) => ({ offset, length }));
        try {
          const lines = await this.#ports.files.readLines(batch.input_file_id, parts);
          return of.map((one, index) => ({ ...one, job: this.#jobOf(batch, one.line, lines[index]!) }));
        } catch (error) {
          this.#putOff(batch, error);
          return [];
        }
      },
    );
    return (await Promise.all(read)).flat();
  }

  /** Puts off a batch whose file cannot be read, so that no other batch waits for it. */
  #putOff(batch: Batch, error: unknown): void {
    this.#unreadable.set(batch.id, this.#ports.now() + PAUSE_MS);
    this.#ports.log('warn', 'a batch waits: its file cannot be read', {
      batch_id: batch.id,
      error: String((error as Error)?.message ?? error),
    });
  }

  #jobOf(batch: Batch, { number, length }: StoredLine, bytes: Uint8Array): LineJob | null {
    const request = bytes.byteLength === length ? requestIn(bytes) : null;
    if (request === null) return null;
    return {
      id: lineJobId(batch.id, number),
      tenant: batch.tenant,
      token_name: batch.token_name ?? null,
      ...(batch.token_models && { token_models: batch.token_models }),
      ...(batch.token_routes && { token_routes: batch.token_routes }),
      ...request,
      deadline_seconds: Math.max(1, (batch.expires_at - this.#ports.now()) / 1000),
    };
  }
}

const UNREADABLE = {
  refused: 'This line could not be read again: its file is gone, or was changed.',
};

function requestIn(line: Uint8Array): ReturnType<typeof requestOf> | null {
  try {
    return requestOf(line);
  } catch {
    return null;
  }
}

/**
 * Returns the pool of a model: models of one pool share its window, and a model that no worker serves now has a window
 * of its own.
 */
function poolOf(model: string, { config_id }: BatchSlots): string {
  return config_id ?? `\0${model}`;
}

function pauseKey({ model, tenant }: Pick<Candidate, 'model' | 'tenant'>): string {
  return JSON.stringify([model, tenant]);
}
