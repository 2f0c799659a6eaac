import { EventTexts, isFinish, isObject, jsonIn, objectIn } from '../protocol/index.ts';
import { type Cut, tokensGiven } from './continuation.ts';

type Fields = Record<string, unknown>;

const encoder = new TextEncoder();

/**
 * Turns the events of a continuation into those of the answer that it continues: the fields that all events share stay
 * the same, the role is told once, and usage counts both parts.
 */
export class Stitcher {
  readonly #cut: Cut;
  readonly #events = new EventTexts();

  constructor(cut: Cut) {
    this.#cut = cut;
  }

  /** Stitches a piece of the continuation. @returns the events that this piece completes; empty if it completes none */
  push(piece: Uint8Array): Uint8Array {
    return this.#stitched(this.#events.push(piece));
  }

  /** Returns what is left at the end of the continuation: an event that lacks its empty line. */
  end(): Uint8Array {
    return this.#stitched(this.#events.end());
  }

  #stitched(events: readonly string[]): Uint8Array {
    let stitched = '';
    for (const event of events) stitched += this.#event(event);
    return encoder.encode(stitched);
  }

  #event(event: string): string {
    const json = jsonIn(event);
    if (json === null) return event;
    const data = objectIn(json);
    if (!Array.isArray(data.choices)) return event;
    const choices = (data.choices as Fields[]).map((choice) => {
      const weight_versions = countedFrom(tokensGiven(this.#cut), choice.weight_versions);
      return withoutBeginning(weight_versions ? { ...choice, weight_versions } : choice);
    });
    if (choices.some((choice) => choice === null)) return '';
    const { prompt_token_ids: _, prompt_text: __, ...rest } = data;
    const usage = isObject(data.usage) ? { usage: wholeUsageOf(data.usage, this.#cut.promptTokens) } : {};
    const stitched = JSON.stringify({ ...rest, ...this.#cut.identity, choices, ...usage });
    return event.replace(json, () => stitched);
  }
}

/**
 * Shifts spans of tokens (of `/inference/v1/generate`) so that they count from the beginning of the answer; undefined
 * if there are none.
 */
export function countedFrom(given: number, spans: unknown): Fields[] | undefined {
  if (!Array.isArray(spans)) return undefined;
  return (spans as { start: number; end: number }[]).map((span) => ({
    ...span,
    start: span.start + given,
    end: span.end + given,
  }));
}

/**
 * Returns the usage of a whole answer from that of its last part: tokens of that part's prompt beyond the caller's were
 * generated before.
 * @param promptTokens the tokens of the caller's prompt
 */
export function wholeUsageOf(usage: Fields, promptTokens: number): Fields {
  const completion = Number(usage.completion_tokens ?? 0) + Number(usage.prompt_tokens ?? 0) - promptTokens;
  const details = usage.prompt_tokens_details;
  const cached = Math.min(Number(Object(details).cached_tokens ?? 0), promptTokens);
  return {
    ...usage,
    prompt_tokens: promptTokens,
    completion_tokens: completion,
    ...(isObject(details) && { prompt_tokens_details: { ...details, cached_tokens: cached } }),
    // Nobody has counted how much of the first part was reasoning.
    ...(usage.completion_tokens_details !== undefined && { completion_tokens_details: null }),
  };
}

/** Returns a choice without what only the beginning of an answer has; null if nothing else is left. */
function withoutBeginning(choice: Fields): Fields | null {
  const { delta, ...rest } = choice;
  if (!isObject(delta)) return choice.prompt_token_ids ? { ...choice, prompt_token_ids: null } : choice;
  const { role, ...said } = delta;
  if (role === undefined) return choice;
  const isOpening = !said.content && !isFinish(choice.finish_reason) && !Array.isArray(choice.token_ids);
  return isOpening ? null : { ...rest, delta: said };
}
