import { joinBytes } from '../protocol/index.ts';

const encoder = new TextEncoder();

const COMMENT = encoder.encode(': keep-alive\n\n');
const COMMENT_LINE = encoder.encode(': keep-alive\n');
/** The bytes that separate a comment from the next bytes of the answer. */
const BETWEEN = encoder.encode(': \n\n');

const ID_LINE = /(?:^|\n)id:/;

/**
 * The comments that show whether the caller of a silent stream is still there, in a form that all known clients read:
 *
 * - OpenAI's client for Python takes a blank line behind an event with an `id` for an event without data, and fails. So
 *   there the comment is one line. An engine that numbers its events numbers the first one too.
 * - `vllm bench serve` strips what it reads at a time, and with it the blank line behind a comment that comes alone. So
 *   the bytes behind a comment begin with another one, whose blank line stays.
 */
export class KeepAlive {
  /** Whether the engine numbers its events; null: nothing of the answer has been written. */
  #hasIds: boolean | null = null;
  #isBehindComment = false;

  /** Returns the comment to write between two events. */
  comment(): Uint8Array {
    if (this.#hasIds) return COMMENT_LINE;
    this.#isBehindComment = true;
    return COMMENT;
  }

  /** Returns the bytes to write. @param data the next bytes of the answer */
  next(data: Uint8Array): Uint8Array {
    this.#hasIds ??= ID_LINE.test(new TextDecoder('latin1').decode(data));
    if (!this.#isBehindComment) return data;
    this.#isBehindComment = false;
    return behindComment(data);
  }
}

/** Returns the bytes of a stream as they follow a comment with a blank line. */
export function behindComment(data: Uint8Array): Uint8Array<ArrayBuffer> {
  return joinBytes([BETWEEN, data]);
}
