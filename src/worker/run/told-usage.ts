import { jsonOrText, type Usage } from '../../protocol/index.ts';
import { characters } from '../answers/event-reader.ts';

/** Most characters of a usage object. */
export const USAGE_CHARACTERS = 600;
const USAGE = /"usage"\s*:\s*\{/g;
const PROMPT_TOKENS = /"(?:prompt|input)_tokens"\s*:\s*(\d+)/;
const COMPLETION_TOKENS = /"(?:completion|output)_tokens"\s*:\s*(\d+)/;
const TOTAL_TOKENS = /"total_tokens"\s*:\s*(\d+)/;
const CACHED_TOKENS = /"(?:cached_tokens|cache_read_input_tokens)"\s*:\s*(\d+)/;
const REASONING_TOKENS = /"reasoning_tokens"\s*:\s*(\d+)/;
/** Matches the engine's name for its model, which stands near the beginning of every answer. */
const MODEL = /"model"\s*:\s*("(?:[^"\\]|\\.){1,512}")/;
const MODEL_WITHIN_CHARACTERS = 4096;
/** The model's name stands within this many bytes of an answer in one piece. */
const MODEL_WITHIN_BYTES = 64 * 1024;

/** The usage that an engine reports in its answer, found without parsing: quotes inside a JSON string are escaped. */
export class ToldUsage {
  #promptTokens: number | null = null;
  #completionTokens: number | null = null;
  #cachedTokens: number | null = null;
  #reasoningTokens: number | null = null;
  #model: string | null = null;
  #seen = 0;

  /** The tokens that the engine has counted as generated; null: it has not said. */
  get completionTokens(): number | null {
    return this.#completionTokens;
  }

  /** The engine's name for its model; null: it has not said. */
  get model(): string | null {
    return this.#model;
  }

  /** Looks for the model at the beginning of an answer. @param text the next part of the answer */
  seeModel(text: string): void {
    if (this.#model !== null || this.#seen >= MODEL_WITHIN_CHARACTERS) return;
    this.#model = modelIn(text);
    this.#seen += text.length;
  }

  /** Reads each usage in a text. @returns whether one counts generated tokens */
  count(text: string): boolean {
    let isCounted = false;
    for (const { index } of text.matchAll(USAGE)) {
      const usage = text.slice(index, index + USAGE_CHARACTERS);
      // Each count holds for the whole answer; `/v1/messages` reports prompt and completion tokens in two events.
      this.#promptTokens = promptIn(usage) ?? this.#promptTokens;
      const completion = numberIn(usage, COMPLETION_TOKENS);
      isCounted ||= completion !== null;
      this.#completionTokens = completion ?? this.#completionTokens;
      this.#cachedTokens = numberIn(usage, CACHED_TOKENS) ?? this.#cachedTokens;
      this.#reasoningTokens = numberIn(usage, REASONING_TOKENS) ?? this.#reasoningTokens;
    }
    return isCounted;
  }

  /** The tokens that the engine counted; null: it did not say. */
  get usage(): Usage | null {
    if (this.#promptTokens === null) return null;
    return {
      prompt_tokens: this.#promptTokens,
      completion_tokens: this.#completionTokens ?? 0,
      ...(this.#cachedTokens !== null && { cached_tokens: this.#cachedTokens }),
      ...(this.#reasoningTokens !== null && { reasoning_tokens: this.#reasoningTokens }),
      ...(this.#model !== null && { model: this.#model }),
    };
  }
}

/** Returns the usage that an answer in one piece reports, or null. */
export function usageInBody(body: Buffer): Usage | null {
  const at = body.indexOf('"usage"');
  if (at < 0) return null;
  const told = new ToldUsage();
  told.seeModel(characters(body.subarray(0, MODEL_WITHIN_BYTES)));
  told.count(characters(body.subarray(at)));
  return told.usage;
}

/** Returns the tokens of the prompt. Routes that score count only all tokens, which are the prompt's. */
function promptIn(usage: string): number | null {
  const prompt = numberIn(usage, PROMPT_TOKENS);
  return prompt !== null || COMPLETION_TOKENS.test(usage) ? prompt : numberIn(usage, TOTAL_TOKENS);
}

function modelIn(text: string): string | null {
  const found = MODEL.exec(text)?.[1];
  const model = found === undefined ? null : jsonOrText(Buffer.from(found, 'latin1').toString());
  return typeof model === 'string' && model.length <= 512 ? model : null;
}

function numberIn(text: string, pattern: RegExp): number | null {
  const found = pattern.exec(text);
  return found && Number(found[1]);
}
