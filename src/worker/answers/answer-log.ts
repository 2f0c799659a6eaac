import type { AnswerHead, Moves, Stage } from '../../protocol/index.ts';
import type { Events } from './events.ts';

/**
 * The log of one answer: what its engine has generated, and of which tokens it is made, so that another engine can
 * continue it. The log has two outlets: `AnswerStream` sends it to the relay, and `AssembledAnswer` makes a result of
 * it. A log without a reader during the run is always open and has room.
 */
export abstract class AnswerLog {
  /** The facts by which another engine continues the answer; null: the answer may not be moved. */
  protected plan: Moves | null = null;
  /** Whether the answer may be cut off after what was written. */
  protected mayBeCut = true;
  /** The number of ids reported so far, those of the prompt included. */
  protected idsReported = 0;

  /** The number of bytes given to readers so far. */
  get size(): number {
    return 0;
  }

  /** Whether the writer should wait. */
  get isFull(): boolean {
    return false;
  }

  /** Whether anybody still wants more of the answer. */
  get isOpen(): boolean {
    return true;
  }

  /** Whether the rest of the answer could be generated elsewhere. */
  get isMovable(): boolean {
    return this.plan !== null && this.mayBeCut && this.isOpen;
  }

  /**
   * For an answer that may be moved, the number of tokens that this attempt has generated, and of those that may follow
   * (null: unknown); null: not known.
   */
  get tokens(): { made: number; left: number | null } | null {
    if (this.plan === null) return null;
    const { plan, prompt_tokens } = this.plan;
    const made = this.idsReported - prompt_tokens;
    return { made, left: plan.max_tokens === null ? null : Math.max(0, plan.max_tokens - made) };
  }

  /** Allows the answer to be moved; called before anything of it is written. */
  moves(moves: Moves, promptIds: readonly number[]): void {
    this.plan = moves;
    this.idsReported = promptIds.length;
    this.idsCame(promptIds, 'running');
  }

  /**
   * Reports the token ids of the events that are written next; null: they are unknown from now on, and the answer
   * stays.
   */
  report(ids: readonly number[] | null, stage: Stage, mayBeCut = true): void {
    if (this.plan === null) return;
    this.mayBeCut = mayBeCut;
    if (ids === null) this.plan = null;
    else this.idsReported += ids.length;
    this.idsCame(ids, stage);
  }

  /** Takes reported ids; null: they are unknown from now on. */
  protected abstract idsCame(ids: readonly number[] | null, stage: Stage): void;

  /** Takes whole events. */
  abstract writeEvents(events: Events): void;

  /** Takes the status and headers of the answer. */
  head(_head: AnswerHead): void {}

  /** Sends what was held back now. */
  hurry(): void {}

  /** Ends an answer that is whole. */
  end(): void {}

  /** Resolves when there is room again, or nobody wants more. */
  async room(): Promise<void> {}
}
