import { callQueue } from '../../src/gateway/objects/calls.ts';
import { Random } from '../support/random.ts';
import type { Surroundings } from './worker-boot.ts';

const GIVE_UP_AFTER_MS = 5000;
/** In one run of four somebody reads them. */
const SHARE = 0.25;

/**
 * Reads the settlements of the queue, from the last number that it was told, over restarts and lost answers. It is to
 * hear of each job once, in the order of their numbers.
 */
export class SettlementReader {
  readonly #around: Surroundings;
  readonly #random: Random;
  readonly #told = new Map<string, number>();
  #after = 0;
  #isStopped = false;

  constructor(around: Surroundings) {
    this.#around = around;
    this.#random = new Random(around.plan.seed, 'settlements');
    this.#isStopped = !this.#random.chance(SHARE);
  }

  /** Who of these was not told of yet; undefined: nobody, or nobody reads. */
  missing(jobIds: readonly string[]): string | undefined {
    return this.#isStopped ? undefined : jobIds.find((id) => !this.#told.has(id));
  }

  stop(): void {
    this.#isStopped = true;
  }

  async run(): Promise<void> {
    const { timeline } = this.#around;
    while (!this.#isStopped) {
      await timeline.sleep(this.#random.int(100, 3000));
      await this.#ask(this.#random.pick([0, 0, 3000]));
    }
  }

  async #ask(waitMs: number): Promise<void> {
    const { timeline, server, plan, oracle } = this.#around;
    const life = server.life;
    if (!life || this.#isStopped) return;
    const wanted = { after: this.#after, config_id: null, wait_ms: waitMs, viewer: null };
    const asked = callQueue(server.env(life), 'q', (queue) => queue.settlements(wanted));
    const over = new Promise<null>((resolve) => life.whenOver(() => resolve(null)));
    const givenUp = timeline.sleep(waitMs + GIVE_UP_AFTER_MS).then(() => null);
    const answer = await Promise.race([asked.catch(() => null), over, givenUp]);
    const isLost = this.#around.isTroubled() && this.#random.chance(plan.httpLoss / 2);
    if (answer === null || isLost) return;
    if (!answer.ok || answer.missed !== null) {
      oracle.violated(
        'a settlement is told once',
        `the reader after ${this.#after} got ${JSON.stringify(answer)}`,
      );
      return;
    }
    for (const { id, n } of answer.settlements) {
      const before = this.#told.get(id);
      if (before !== undefined || n <= this.#after) {
        oracle.violated(
          'a settlement is told once',
          `${id} as ${n}, after ${this.#after}; before as ${before}`,
        );
      }
      this.#told.set(id, n);
      this.#after = n;
    }
    this.#after = Math.max(this.#after, answer.up_to);
  }
}
