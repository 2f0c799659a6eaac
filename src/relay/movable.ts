import type { Cut } from '../moving/cut.ts';
import type { AnswerRecord, Moves, Stage } from '../protocol/index.ts';

type Told = Extract<AnswerRecord, { type: 'ids' }>;

/**
 * What a relay keeps of an answer that may be moved: the ids of its prompt and of all that its caller has been given.
 * They come before the bytes that they are about, and count from when those are here.
 */
export class MovableAnswer {
  readonly #moves: Moves;
  readonly #ids: number[] = [];
  /** Told, of bytes that are not here yet. */
  #ahead: { offset: number; ids: number; stage: Stage }[] = [];
  /** Where the ids stand that count. */
  #at = { offset: 0, ids: 0, stage: 'running' as Stage };

  constructor(moves: Moves) {
    this.#moves = moves;
  }

  /** Ids that are kept. */
  get size(): number {
    return this.#ids.length;
  }

  /** After a reconnect the worker tells some again. @returns false: some are missing */
  tell({ offset, before, stage, ids }: Told): boolean {
    if (before > this.#ids.length) return false;
    for (let at = this.#ids.length - before; at < ids.length; at++) this.#ids.push(ids[at]!);
    this.#ahead.push({ offset, ids: this.#ids.length, stage });
    return true;
  }

  /** @param offset up to which all bytes are here */
  received(offset: number): void {
    while (this.#ahead.length > 0 && this.#ahead[0]!.offset <= offset) this.#at = this.#ahead.shift()!;
  }

  /** The answer cut off behind these bytes; null: it is not known what all of them say. */
  cutAt(offset: number): Cut | null {
    const { plan, identity, prompt_tokens: promptTokens } = this.#moves;
    const { offset: known, ids, stage } = this.#at;
    if (known !== offset || ids < promptTokens) return null;
    return { plan, identity, promptTokens, stage, ids: this.#ids.slice(0, ids) };
  }
}
