import type { Cut } from '../moving/continuation.ts';
import type { AnswerRecord, Moves, Stage } from '../protocol/index.ts';

type Told = Extract<AnswerRecord, { type: 'ids' }>;

/**
 * The ids that a relay stores of an answer that may be moved: those of its prompt and of all that its caller has been
 * given. The ids come after the bytes that they belong to.
 */
export class MovableAnswer {
  readonly #moves: Moves;
  readonly #ids: number[] = [];
  /** The place in the answer up to which the ids are known. */
  #at = { offset: 0, stage: 'running' as Stage };

  constructor(moves: Moves) {
    this.#moves = moves;
  }

  /** The number of stored ids. */
  get size(): number {
    return this.#ids.length;
  }

  /** Stores ids. @param received the offset up to which all bytes are here @returns false: some ids are missing */
  tell({ offset, before, stage, ids }: Told, received: number): boolean {
    // The ids were sent again after a reconnect, or their bytes left a gap and come again together with their ids.
    if (offset <= this.#at.offset || offset > received) return true;
    if (before !== this.#ids.length) return false;
    for (const id of ids) this.#ids.push(id);
    this.#at = { offset, stage };
    return true;
  }

  /** Returns the answer cut off after these bytes; null: the ids of some of them are unknown. */
  cutAt(offset: number): Cut | null {
    const { plan, identity, prompt_tokens: promptTokens } = this.#moves;
    if (this.#at.offset !== offset || this.#ids.length < promptTokens) return null;
    return { plan, identity, promptTokens, stage: this.#at.stage, ids: this.#ids };
  }
}
