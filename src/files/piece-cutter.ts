/** Gathers bytes that come in any lengths into pieces of one length; the last may be shorter. */
export class PieceCutter {
  readonly #length: number;
  readonly #take: (piece: Uint8Array) => void;
  #piece: Uint8Array;
  #filled = 0;
  /** The number of bytes pushed so far. */
  bytes = 0;

  /** @param take is given each piece, which is valid only during the call */
  constructor(length: number, take: (piece: Uint8Array) => void) {
    this.#length = length;
    this.#take = take;
    this.#piece = new Uint8Array(length);
  }

  push(bytes: Uint8Array): void {
    this.bytes += bytes.byteLength;
    for (let at = 0; at < bytes.byteLength; ) {
      const part = bytes.subarray(at, at + this.#length - this.#filled);
      this.#piece.set(part, this.#filled);
      this.#filled += part.byteLength;
      at += part.byteLength;
      if (this.#filled === this.#length) this.#flush();
    }
  }

  end(): void {
    if (this.#filled > 0) this.#flush();
  }

  #flush(): void {
    this.#take(this.#piece.subarray(0, this.#filled));
    this.#filled = 0;
  }
}
