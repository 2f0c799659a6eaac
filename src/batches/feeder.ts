import { lineJobId } from '../protocol/index.ts';
import type { Batch } from './batch.ts';
import { requestOf } from './input-lines.ts';
import { type LineOutcome, record, refusal } from './outcomes.ts';
import type { BatchPorts, BatchSlots, LineJob } from './ports.ts';
import { lineCounts, moveLines, nextLines, type StoredBatch, type StoredLine } from './store.ts';

/** The bounds for the work of one step. */
export interface RunnerSizes {
  /** The number of lines of a pool in the queue: enough to keep its slots busy, few enough to call back. */
  window: { least: number; slots: number };
  /** The most lines that one call submits, and the most outcomes that one records. */
  mostAtOnce: number;
}

/** The most bytes of lines submitted in one call; a single line may have more. */
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
   * Returns why the queue does not accept this tenant's lines for a model, as a clause, or null if it accepts them or
   * was not asked yet.
   */
  whyNotTaken(model: string, tenant: string | null): string | null {
    return this.#paused.get(pauseKey({ model, tenant }))?.why ?? null;
  }

  /**
   * Makes the jobs of lines, with one call to each file, without the lines of a file that cannot be read now. A job is
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

  /** Postpones a batch whose file cannot be read, so that no other batch waits for it. */
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

/** The lines of one batch for one model, which compete for the next places of their pool in the queue. */
export interface Contender {
  /** The batch's tenant; null: no tokens are configured. */
  tenant: string | null;
  waiting: number;
  submitted: number;
  /** The epoch ms by which the first of the remaining lines must begin for all of them to be done within the window. */
  latest_start: number;
}

/**
 * Gives out places in the queue, each to the tenant that has the fewest lines there, and among its batches to the one
 * that must begin first.
 * @returns the number of places of each contender; those that get none are left out
 */
export function shareOut<C extends Contender>(contenders: readonly C[], places: number): Map<C, number> {
  const shares = new Map<C, number>();
  const tenants = [...Map.groupBy(contenders, ({ tenant }) => tenant).values()].map((own) => ({
    submitted: own.reduce((sum, { submitted }) => sum + submitted, 0),
    line: own
      .filter(({ waiting }) => waiting > 0)
      .sort((one, other) => one.latest_start - other.latest_start),
  }));
  for (let place = 0; place < places; place++) {
    const [first, ...others] = tenants.filter(({ line }) => line.length > 0);
    if (first === undefined) break;
    const next = others.reduce((one, other) => (goesBefore(other, one) ? other : one), first);
    const contender = next.line[0]!;
    const share = (shares.get(contender) ?? 0) + 1;
    shares.set(contender, share);
    next.submitted += 1;
    if (share === contender.waiting) next.line.shift();
  }
  return shares;
}

interface Tenant {
  submitted: number;
  /** The tenant's contenders that have lines left, never empty in `goesBefore`. */
  line: readonly Contender[];
}

function goesBefore(one: Tenant, other: Tenant): boolean {
  if (one.submitted !== other.submitted) return one.submitted < other.submitted;
  return one.line[0]!.latest_start < other.line[0]!.latest_start;
}

/** Done lines count towards the pace for this long, ms; it is counted in steps, so that little is stored. */
const REMEMBERED_MS = 300_000;
const STEP_MS = 10_000;
/** The pace of a shorter time than this, ms, says nothing. */
const LEAST_MS = 5000;

/** Measures how fast the lines of each pool are done. */
export class Pace {
  readonly #steps = new Map<string, { at: number; lines: number }[]>();

  /** Counts lines of a pool that are done. @param now epoch ms */
  done(configId: string, lines: number, now: number): void {
    const steps = this.#steps.get(configId) ?? [];
    const newest = steps.at(-1);
    if (newest !== undefined && now - newest.at < STEP_MS) newest.lines += lines;
    else steps.push({ at: now, lines });
    this.#steps.set(
      configId,
      steps.filter(({ at }) => at > now - REMEMBERED_MS),
    );
  }

  /** Returns how long this many lines of a pool take, ms; 0 if nothing is known. */
  timeFor(configId: string, lines: number, now: number): number {
    const steps = (this.#steps.get(configId) ?? []).filter(({ at }) => at > now - REMEMBERED_MS);
    const elapsed = now - (steps[0]?.at ?? now);
    const done = steps.reduce((sum, step) => sum + step.lines, 0);
    return elapsed < LEAST_MS ? 0 : (lines * elapsed) / done;
  }

  /** Returns how long this many lines of the fastest pool take, ms; Infinity if nothing is known. */
  leastTimeFor(lines: number, now: number): number {
    const times = [...this.#steps.keys()].map((configId) => this.timeFor(configId, lines, now));
    return Math.min(...times.filter((ms) => ms > 0));
  }
}
