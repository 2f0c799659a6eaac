/** Longest text looked for, with room for blanks: what a search across two pieces must see of the first. */
const OVERLAP_BYTES = 64;
/** vLLM's word for a generation it gave up, and FastDeploy's for one it lost in a recovery. */
export const UNFINISHED_REASONS: readonly string[] = ['abort', 'recover_stop'];
const ABORTED = new RegExp(`"finish_reason"\\s*:\\s*"(?:${UNFINISHED_REASONS.join('|')})"`);
const DONE = /(^|\n)data: ?\[DONE\]\s*$/;
/** The event of an engine that fails after its status has gone out. */
const ERROR_EVENT = /data: ?(?=\{\s*"error"\s*:\s*[{"])/;
/** Kept of such an event, bytes. */
const ERROR_BYTES = 64 * 1024;

/**
 * Whether an answer that passes by came to its proper end.
 * The search is in raw bytes: inside a JSON string the quotes would be escaped, so a match is the real key.
 */
export class CompletionWatch {
  #tail: Uint8Array = new Uint8Array(0);
  #isAborted = false;
  /** The answer from the data of its error event on; null: none has come. */
  #error: Buffer | null = null;

  see(piece: Uint8Array): void {
    const border = Buffer.concat([this.#tail, piece.subarray(0, OVERLAP_BYTES)]);
    const parts = piece.byteLength > OVERLAP_BYTES ? [border, asBuffer(piece)] : [border];
    this.#isAborted ||= parts.some(hasAbort);
    if (this.#error) this.#error = Buffer.concat([this.#error, piece]).subarray(0, ERROR_BYTES);
    else if (parts.some((part) => part.includes('"error"'))) {
      this.#error = errorIn(Buffer.concat([this.#tail, piece]));
    }
    this.#tail =
      piece.byteLength >= OVERLAP_BYTES
        ? piece.subarray(-OVERLAP_BYTES)
        : Buffer.concat([this.#tail, piece]).subarray(-OVERLAP_BYTES);
  }

  /** The engine gave the generation up: no result. */
  get isAborted(): boolean {
    return this.#isAborted;
  }

  /** The data of the engine's own error among the events, as far as it has come; null: none has. */
  get error(): string | null {
    return this.#error && this.#error.toString().split(/\r?\n/, 1)[0]!;
  }

  /** Whether the last thing seen was the closing event of a stream. */
  get isDone(): boolean {
    return DONE.test(asBuffer(this.#tail).toString('latin1'));
  }
}

function hasAbort(bytes: Buffer): boolean {
  // The plain search is far cheaper than the pattern, and nearly always enough.
  const isSuspect = UNFINISHED_REASONS.some((reason) => bytes.includes(`"${reason}"`));
  return isSuspect && ABORTED.test(bytes.toString('latin1'));
}

function errorIn(bytes: Buffer): Buffer | null {
  const found = ERROR_EVENT.exec(bytes.toString('latin1'));
  return found && bytes.subarray(found.index + found[0].length).subarray(0, ERROR_BYTES);
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
