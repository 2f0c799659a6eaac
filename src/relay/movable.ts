import type { Cut } from '../moving/cut.ts';
import type { AnswerRecord, Moves, Stage } from '../protocol/index.ts';

type Told = Extract<AnswerRecord, { type: 'ids' }>;

/**
 * What a relay keeps of an answer that may be moved: the ids of its prompt and of all that its caller has been given.
 * They come behind the bytes that they are about.
 */
export class MovableAnswer {
  readonly #moves: Moves;
  readonly #ids: number[] = [];
  /** Up to where the ids say what the bytes are. */
  #at = { offset: 0, stage: 'running' as Stage };

  constructor(moves: Moves) {
    this.#moves = moves;
  }

  /** Ids that are kept. */
  get size(): number {
    return this.#ids.length;
  }

  /** @param received up to which all bytes are here @returns false: some ids are missing */
  tell({ offset, before, stage, ids }: Told, received: number): boolean {
    // Told again after a reconnect; or of bytes that left a gap, and come again with their ids.
    if (offset <= this.#at.offset || offset > received) return true;
    if (before !== this.#ids.length) return false;
    for (const id of ids) this.#ids.push(id);
    this.#at = { offset, stage };
    return true;
  }

  /** The answer cut off behind these bytes; null: it is not known what all of them say. */
  cutAt(offset: number): Cut | null {
    const { plan, identity, prompt_tokens: promptTokens } = this.#moves;
    if (this.#at.offset !== offset || this.#ids.length < promptTokens) return null;
    return { plan, identity, promptTokens, stage: this.#at.stage, ids: this.#ids };
  }
}
