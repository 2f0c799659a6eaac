import type { Events } from './events.ts';

/** As of vLLM's paged cache: what prompts have in common is found in blocks of this many tokens. */
export const BLOCK_TOKENS = 16;

export interface EngineShape {
  /** The number of tokens that its cache holds. */
  cacheTokens: number;
  /** Prompts are computed one after another, so fast. */
  prefillTokensPerMs: number;
  msPerToken: number;
}

/** One prompt and its answer; each hash stands for a block and all blocks before it. */
export interface Sequence {
  promptTokens: number;
  promptBlocks: readonly number[];
  /** All of it, the answer too. */
  blocks: readonly number[];
  answerTokens: number;
}

/** A model of an engine in virtual time: a cache of blocks, prefill in turn, then a token every so many ms. */
export class ModelEngine {
  readonly #events: Events;
  readonly #shape: EngineShape;
  /** In the order of use. */
  readonly #cache = new Set<number>();
  /** When the prompts that came so far are computed, ms. */
  #freeAt = 0;

  constructor(events: Events, shape: EngineShape) {
    this.#events = events;
    this.#shape = shape;
  }

  /** @param first is told how many tokens of the prompt were cached, when its first token comes */
  run(sequence: Sequence, first: (cached: number) => void, end: () => void): void {
    const { promptTokens, promptBlocks, blocks, answerTokens } = sequence;
    const startsAt = Math.max(this.#events.now, this.#freeAt);
    // The prompts before it are computed by then, so what they share with it counts.
    const cached = Math.min(this.#cachedBlocks(promptBlocks) * BLOCK_TOKENS, promptTokens);
    this.#use(promptBlocks);
    this.#freeAt = startsAt + (promptTokens - cached) / this.#shape.prefillTokensPerMs;
    this.#events.at(this.#freeAt, () => first(cached));
    this.#events.at(this.#freeAt + answerTokens * this.#shape.msPerToken, () => {
      this.#use(blocks);
      end();
    });
  }

  #cachedBlocks(blocks: readonly number[]): number {
    const missing = blocks.findIndex((block) => !this.#cache.has(block));
    return missing < 0 ? blocks.length : missing;
  }

  /** Later blocks of a sequence are dropped before earlier ones, as vLLM does. */
  #use(blocks: readonly number[]): void {
    for (let at = blocks.length - 1; at >= 0; at--) {
      this.#cache.delete(blocks[at]!);
      this.#cache.add(blocks[at]!);
    }
    for (const oldest of this.#cache) {
      if (this.#cache.size * BLOCK_TOKENS <= this.#shape.cacheTokens) return;
      this.#cache.delete(oldest);
    }
  }
}
