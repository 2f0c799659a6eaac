import type { Batch, NewBatch } from '../../src/batches/batch.ts';
import type { BatchStatus } from '../../src/protocol/file-answers.ts';
import { Random } from '../support/random.ts';
import type { BatchPlan } from './batch-plan.ts';
import type { BatchesCalls } from './batches-host.ts';
import type { Surroundings } from './worker-boot.ts';

const ENDPOINT = '/v1/chat/completions';
/** Who hears nothing for so long asks again, ms. */
const GIVE_UP_AFTER_MS = 5000;
const DAY_MS = 86_400_000;

/** A status never leads to one with a smaller number. */
const RANKS: Record<BatchStatus, number> = {
  validating: 0,
  in_progress: 1,
  finalizing: 2,
  cancelling: 2,
  failed: 3,
  completed: 3,
  cancelled: 3,
  expired: 3,
};

/** Someone with one batch: uploads, creates it until it is accepted, may cancel it, looks until it is over. */
export class BatchOwner {
  readonly plan: BatchPlan;
  readonly #around: Surroundings;
  readonly #random: Random;
  /** As it was last seen. */
  #seen: Batch | null = null;
  isDone = false;

  constructor(around: Surroundings, plan: BatchPlan) {
    this.#around = around;
    this.plan = plan;
    this.#random = new Random(around.plan.seed, `owner ${plan.id}`);
  }

  /** As it was when it was over. */
  get batch(): Batch | null {
    return this.isDone ? this.#seen : null;
  }

  async run(): Promise<void> {
    const { timeline, server, trace } = this.#around;
    const input = `file-${this.plan.id}`;
    const bytes = new TextEncoder().encode(inputOf(this.plan));
    server.batches.files.put(input, bytes);
    const file = {
      ...{ id: input, tenant: null, filename: 'in.jsonl', purpose: 'batch' as const },
      ...{ bytes: bytes.byteLength, created_at: server.now, expires_at: null },
    };
    await this.#until((batches) => batches.addFile(file).then(() => true));
    const asked = newBatch(this.plan, server.now);
    this.#see(await this.#until((batches) => batches.createBatch(asked, this.plan.id)));
    trace.say(`${this.plan.id} accepted`);
    if (this.plan.cancelAfterMs !== null) {
      await timeline.sleep(this.plan.cancelAfterMs);
      this.#see(await this.#until((batches) => batches.cancelBatch(this.plan.id)));
    }
    while (!this.isDone) {
      await timeline.sleep(this.plan.looksEveryMs);
      this.#see(await this.#ask((batches) => batches.findBatch(this.plan.id)));
    }
    // Looked at once more, later: it must not have changed.
    await timeline.sleep(5000);
    this.#see(await this.#ask((batches) => batches.findBatch(this.plan.id)));
  }

  #see(batch: Batch | null | undefined): void {
    if (batch === undefined) return;
    const { oracle } = this.#around;
    const before = this.#seen;
    if (batch === null) return oracle.violated('an accepted batch is not lost', this.plan.id);
    if (this.isDone && JSON.stringify(before) !== JSON.stringify(batch)) {
      oracle.violated('a batch ends once', `${this.plan.id} was ${before?.status}, now ${batch.status}`);
    }
    for (const count of ['total', 'completed', 'failed'] as const) {
      if (before !== null && batch[count] < before[count])
        oracle.violated(
          'counts of a batch never decrease',
          `${this.plan.id}: ${count} ${before[count]} → ${batch[count]}`,
        );
    }
    if (before !== null && RANKS[batch.status] < RANKS[before.status]) {
      oracle.violated('a batch never goes back', `${this.plan.id} was ${before.status}, now ${batch.status}`);
    }
    this.#seen = batch;
    this.isDone = RANKS[batch.status] === 3;
  }

  async #until<T>(ask: (batches: BatchesCalls) => Promise<T>): Promise<T> {
    for (;;) {
      const answer = await this.#ask(ask);
      if (answer !== undefined) return answer;
    }
  }

  /** One HTTP request; undefined when no answer was heard. */
  async #ask<T>(ask: (batches: BatchesCalls) => Promise<T>): Promise<T | undefined> {
    const { timeline, server, plan, isTroubled } = this.#around;
    const lossy = isTroubled() ? plan.httpLoss : 0;
    await timeline.sleep(1 + this.#random.wait(plan.latencyMs));
    const life = server.life;
    if (!life || this.#random.chance(lossy / 2)) {
      await timeline.sleep(500);
      return undefined;
    }
    const answered = ask(server.batches.calls(() => life.isAlive));
    const isLost = this.#random.chance(lossy / 2);
    const givenUp = timeline.sleep(GIVE_UP_AFTER_MS).then(() => undefined);
    return await Promise.race([isLost ? new Promise<undefined>(() => {}) : answered, givenUp]);
  }
}

function newBatch({ id, windowMs }: BatchPlan, now: number): NewBatch {
  return {
    id,
    tenant: null,
    token_name: null,
    most_lines: 100,
    input_file_id: `file-${id}`,
    endpoint: ENDPOINT,
    completion_window: '24h',
    metadata: null,
    output_kept_ms: 30 * DAY_MS,
    output_file_id: `file-${id}-output`,
    error_file_id: `file-${id}-error`,
    created_at: now,
    expires_at: now + windowMs,
  };
}

/** With what a file may have besides lines that are in order. */
function inputOf({ lines, badLine }: BatchPlan): string {
  const texts = Array.from({ length: lines }, (_, index) => {
    const number = index + 1;
    const bad = badLine?.number === number ? badLine.kind : null;
    if (bad === 'not_json') return '{';
    const custom_id = customId(bad === 'twice' && number > 1 ? 1 : number);
    const body = { model: 'tiny', messages: [], ...(bad === 'stream' && { stream: true }) };
    return JSON.stringify({ custom_id, method: 'POST', url: ENDPOINT, body });
  });
  return `\ufeff${texts.join('\r\n\n')}`;
}

/** Its number in the file, in which a blank line stands before each but the first. */
export function placeOf(number: number): number {
  return 2 * number - 1;
}

export function customId(number: number): string {
  return `line ${number}`;
}
