import type { AnswerHead, Moves, Stage } from '../../protocol/index.ts';
import type { Events } from './events.ts';

/**
 * The log of one answer: what its engine has generated, and of which tokens it is made, so that another engine may go
 * on with it. It has two outlets: `AnswerStream` sends it to the relay, and `AssembledAnswer` makes a result of it. One
 * that nobody reads along is always open and has room.
 */
export abstract class AnswerLog {
  /** For an answer that may be moved, what another engine has to know; null: it stays where it is. */
  protected plan: Moves | null = null;
  /** Whether the answer may be cut off behind what was written. */
  protected mayBeCut = true;
  /** The number of ids reported so far, those of the prompt included. */
  protected idsReported = 0;

  /** The bytes that readers were given so far. */
  get size(): number {
    return 0;
  }

  /** True when the writer should wait. */
  get isFull(): boolean {
    return false;
  }

  /** False: nobody wants more of the answer. */
  get isOpen(): boolean {
    return true;
  }

  /** True if the rest of the answer could be generated elsewhere. */
  get isMovable(): boolean {
    return this.plan !== null && this.mayBeCut && this.isOpen;
  }

  /**
   * The number of tokens that this attempt has generated, and of those that may follow (null: unknown), of an answer
   * that may be moved; null: not known.
   */
  get tokens(): { made: number; left: number | null } | null {
    if (this.plan === null) return null;
    const { plan, prompt_tokens } = this.plan;
    const made = this.idsReported - prompt_tokens;
    return { made, left: plan.max_tokens === null ? null : Math.max(0, plan.max_tokens - made) };
  }

  /** Marks the answer as one that may be moved; called before anything of it is written. */
  moves(moves: Moves, promptIds: readonly number[]): void {
    this.plan = moves;
    this.idsReported = promptIds.length;
    this.idsCame(promptIds, 'running');
  }

  /** Reports the ids of the events that are written next; null: they are not known any more, and the answer stays. */
  report(ids: readonly number[] | null, stage: Stage, mayBeCut = true): void {
    if (this.plan === null) return;
    this.mayBeCut = mayBeCut;
    if (ids === null) this.plan = null;
    else this.idsReported += ids.length;
    this.idsCame(ids, stage);
  }

  /** Takes ids that were reported; null: they are not known any more. */
  protected abstract idsCame(ids: readonly number[] | null, stage: Stage): void;

  /** Takes whole events. */
  abstract writeEvents(events: Events): void;

  /** Takes the status and headers of the answer. */
  head(_head: AnswerHead): void {}

  /** Sends now what was held back. */
  hurry(): void {}

  /** Ends an answer that is whole. */
  end(): void {}

  /** Resolves when there is room again, or nothing more is wanted. */
  async room(): Promise<void> {}
}
