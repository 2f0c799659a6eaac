import type { Usage } from '../../protocol/index.ts';
import { parseBody } from './attempt.ts';

/** Longest mark looked for, with room for blanks: what a search across two pieces must see of the first. */
const TAIL_CHARACTERS = 64;
/** The same of a usage object. */
const USAGE_CHARACTERS = 600;
/** vLLM's word for a generation it gave up, and FastDeploy's for one it lost in a recovery. */
export const UNFINISHED_REASONS: readonly string[] = ['abort', 'recover_stop'];
/** In one pass: whether there is anything to look at. */
const MARKS = new RegExp(`"(?:${UNFINISHED_REASONS.join('|')}|error|usage)"|event: ?(?:error|response\\.)`);
const ABORTED = new RegExp(`"finish_reason"\\s*:\\s*"(?:${UNFINISHED_REASONS.join('|')})"`);
const DONE = /(^|\n)data: ?\[DONE\]\s*$/;
/**
 * The event of an engine that fails after its status has gone out, up to its data: of OpenAI's older routes by its
 * first key, of `/v1/messages` and `/v1/responses` by its name. A response may be incomplete without an error.
 */
const ERROR_EVENT =
  /data: ?(?=\{\s*"error"\s*:\s*[{"])|data: ?(?=\{\s*"type"\s*:\s*"(?:error|response\.failed)")|\nevent: ?(?:error|response\.(?:failed|incomplete))\r?\ndata: ?(?=\{)/;
/** Kept of such an event; a response that failed brings all it had. */
const ERROR_CHARACTERS = 1024 * 1024;
const USAGE = /"usage"\s*:\s*\{/g;
const PROMPT_TOKENS = /"(?:prompt|input)_tokens"\s*:\s*(\d+)/;
const COMPLETION_TOKENS = /"(?:completion|output)_tokens"\s*:\s*(\d+)/;

/**
 * Whether an answer that passes by came to its proper end, and what it used.
 * The search is in raw bytes: inside a JSON string the quotes and line ends would be escaped, so a match is real.
 */
export class CompletionWatch {
  /** Bytes as characters. What comes first begins a line. */
  #tail = '\n';
  #isAborted = false;
  /** The answer from the data of its error event on; null: none has come. */
  #failed: string | null = null;
  #promptTokens: number | null = null;
  #completionTokens: number | null = null;

  see(piece: Uint8Array): void {
    const text = this.#tail + latin1(piece);
    let tailAt = text.length - TAIL_CHARACTERS;
    if (this.#failed !== null) this.#failed = cut(this.#failed + latin1(piece));
    if (MARKS.test(text)) {
      this.#isAborted ||= ABORTED.test(text);
      this.#failed ??= errorIn(text);
      tailAt = Math.min(tailAt, this.#count(text));
    }
    this.#tail = text.slice(Math.max(0, tailAt));
  }

  /** The engine gave the generation up: no result. */
  get isAborted(): boolean {
    return this.#isAborted;
  }

  /** The data of the engine's own error among the events, as far as it has come; null: none has. */
  get error(): string | null {
    if (this.#failed === null) return null;
    const [data = ''] = this.#failed.split(/\r?\n/, 1);
    return isFailure(data) ? Buffer.from(data, 'latin1').toString() : null;
  }

  /** Whether the last thing seen was the closing event of a stream. */
  get isDone(): boolean {
    return DONE.test(this.#tail);
  }

  /** The tokens that the engine counted; null: it did not say. */
  get usage(): Usage | null {
    if (this.#promptTokens === null) return null;
    return { prompt_tokens: this.#promptTokens, completion_tokens: this.#completionTokens ?? 0 };
  }

  /** @returns where the last usage begins if it may go on in the next piece */
  #count(text: string): number {
    let last = text.length;
    for (const { index } of text.matchAll(USAGE)) {
      const usage = text.slice(index, index + USAGE_CHARACTERS);
      // Each holds for the whole answer; `/v1/messages` tells the two in two events.
      this.#promptTokens = numberIn(usage, PROMPT_TOKENS) ?? this.#promptTokens;
      this.#completionTokens = numberIn(usage, COMPLETION_TOKENS) ?? this.#completionTokens;
      last = index;
    }
    return text.length - last < USAGE_CHARACTERS ? last : text.length;
  }
}

function numberIn(text: string, pattern: RegExp): number | null {
  const found = pattern.exec(text);
  return found && Number(found[1]);
}

function errorIn(text: string): string | null {
  const found = ERROR_EVENT.exec(text);
  return found && cut(text.slice(found.index + found[0].length));
}

function cut(data: string): string {
  return data.length > ERROR_CHARACTERS ? data.slice(0, ERROR_CHARACTERS) : data;
}

/** A response that is only incomplete has reached a limit, and that is a result. */
function isFailure(data: string): boolean {
  if (!/"response\.incomplete"/.test(data)) return true;
  return errorOf(parseBody(data)) !== null;
}

/** The engine's error in the data of an event: `{error}`, `{response: {error}}`, or the data itself; null: none. */
export function errorOf(data: unknown): unknown {
  const { error, response } = Object(data) as { error?: unknown; response?: { error?: unknown } };
  if (response) return Object(response).error ?? null;
  return error ?? data;
}

function latin1(piece: Uint8Array): string {
  const bytes =
    piece instanceof Buffer ? piece : Buffer.from(piece.buffer, piece.byteOffset, piece.byteLength);
  return bytes.toString('latin1');
}
