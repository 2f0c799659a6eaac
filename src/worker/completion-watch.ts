/** Longest text looked for, with room for blanks: what a search across two pieces must see of the first. */
const OVERLAP_BYTES = 64;
/** vLLM's word for a generation it gave up, and FastDeploy's for one it lost in a recovery. */
export const UNFINISHED_REASONS: readonly string[] = ['abort', 'recover_stop'];
const ABORTED = new RegExp(`"finish_reason"\\s*:\\s*"(?:${UNFINISHED_REASONS.join('|')})"`);
const DONE = /(^|\n)data: ?\[DONE\]\s*$/;

/**
 * Whether a completion that passes by came to its proper end.
 * The search is in raw bytes: inside a JSON string the quotes would be escaped, so a match is the real key.
 */
export class CompletionWatch {
  #tail: Uint8Array = new Uint8Array(0);

  /** True when this piece tells that the engine aborted the generation: no result. */
  sawAbort(piece: Uint8Array): boolean {
    const border = Buffer.concat([this.#tail, piece.subarray(0, OVERLAP_BYTES)]);
    const isAborted = hasAbort(border) || (piece.byteLength > OVERLAP_BYTES && hasAbort(asBuffer(piece)));
    this.#tail =
      piece.byteLength >= OVERLAP_BYTES
        ? piece.subarray(-OVERLAP_BYTES)
        : Buffer.concat([this.#tail, piece]).subarray(-OVERLAP_BYTES);
    return isAborted;
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

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
