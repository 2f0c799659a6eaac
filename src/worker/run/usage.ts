import { CHAT_MAX_TOKENS, fieldsOf, type Job, jsonOrText, type Usage } from '../../protocol/index.ts';
import { characters } from '../answers/events.ts';
import { isJson } from './request-body.ts';

/** The most characters of a usage object. */
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
export class ReportedUsage {
  #promptTokens: number | null = null;
  #completionTokens: number | null = null;
  #cachedTokens: number | null = null;
  #reasoningTokens: number | null = null;
  #model: string | null = null;
  #seen = 0;

  /** The number of tokens that the engine has counted as generated; null: it reported none. */
  get completionTokens(): number | null {
    return this.#completionTokens;
  }

  /** The engine's name for its model; null: it reported none. */
  get model(): string | null {
    return this.#model;
  }

  /** Looks for the model at the beginning of an answer. @param text the next part of the answer */
  seeModel(text: string): void {
    if (this.#model !== null || this.#seen >= MODEL_WITHIN_CHARACTERS) return;
    this.#model = modelIn(text);
    this.#seen += text.length;
  }

  /** Reads each usage in a text. @returns whether one of them counts generated tokens */
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

  /** The tokens that the engine counted; null: it reported none. */
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
  const reported = new ReportedUsage();
  reported.seeModel(characters(body.subarray(0, MODEL_WITHIN_BYTES)));
  reported.count(characters(body.subarray(at)));
  return reported.usage;
}

/** Returns the tokens of the prompt. Routes that score report only all tokens, which are the prompt's. */
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

/** Returns the most tokens that a job may generate for each choice; null: it names no limit, or generates none. */
export function maxTokensOf(job: Job): number | null {
  const payload = fieldsOf(job.payload);
  if ('path' in payload) {
    const body = fieldsOf(parsed(payload.body));
    return limitIn(body) ?? limitIn(fieldsOf(body.sampling_params));
  }
  if ('input' in payload) return runpodLimit(fieldsOf(payload.input));
  return 'messages' in payload ? (limitIn(payload) ?? CHAT_MAX_TOKENS) : null;
}

function parsed(body: unknown): unknown {
  if (body instanceof Uint8Array) return isJson(body) ? jsonOrText(new TextDecoder().decode(body)) : null;
  return typeof body === 'string' ? jsonOrText(body) : null;
}

/**
 * Returns the tokens generated for each choice of a finished completion, by the engine's own count; null: it reports
 * none.
 */
export function generatedTokens(completion: unknown): number | null {
  const { usage, choices } = fieldsOf(completion);
  const tokens = fieldsOf(usage).completion_tokens;
  if (typeof tokens !== 'number') return null;
  return tokens / (Array.isArray(choices) ? Math.max(1, choices.length) : 1);
}

/** Returns the usage that the engine reports in a whole answer in JSON, or null. */
export function usageOf(answer: unknown): Usage | null {
  const { usage, model } = fieldsOf(answer);
  const counts = fieldsOf(usage);
  const prompt = countIn(counts.prompt_tokens);
  if (prompt === null) return null;
  const cached = countIn(fieldsOf(counts.prompt_tokens_details).cached_tokens);
  const reasoning = countIn(fieldsOf(counts.completion_tokens_details).reasoning_tokens);
  return {
    prompt_tokens: prompt,
    completion_tokens: countIn(counts.completion_tokens) ?? 0,
    ...(cached !== null && { cached_tokens: cached }),
    ...(reasoning !== null && { reasoning_tokens: reasoning }),
    ...(typeof model === 'string' && model.length <= 512 && { model }),
  };
}

function countIn(value: unknown): number | null {
  return Number.isSafeInteger(value) && (value as number) >= 0 ? (value as number) : null;
}

/** Returns the limit in the request that RunPod's input becomes; without a limit such a request generates little. */
function runpodLimit({ openai_input, body, sampling_params }: Record<string, unknown>): number | null {
  return limitIn(fieldsOf(openai_input ?? body ?? sampling_params));
}

function limitIn(body: Record<string, unknown>): number | null {
  const limit = body.max_completion_tokens ?? body.max_tokens ?? body.max_output_tokens;
  return typeof limit === 'number' && limit > 0 ? limit : null;
}
