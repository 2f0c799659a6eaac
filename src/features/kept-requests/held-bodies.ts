/** The most bytes that are held at once; a request that comes then is not kept. */
const MOST_HELD_BYTES = 128 * 1024 * 1024;

/** The body of a request that runs. */
interface Held {
  bytes: Uint8Array;
  /** Whether only the beginning is held. */
  isCut: boolean;
  /** When the request came, epoch ms. */
  at: number;
}

/** Holds the bodies of requests until their answers are over, within a bound. */
export class HeldBodies {
  readonly #held = new WeakMap<object, Held>();
  /** A request that is refused after its body was held has no answer that would free it. */
  readonly #gone = new FinalizationRegistry<number>((bytes) => {
    this.#bytes -= bytes;
  });
  readonly #mostOfOne: number;
  #bytes = 0;

  /** @param mostOfOne the bytes of one body that are held at most */
  constructor(mostOfOne: number) {
    this.#mostOfOne = mostOfOne;
  }

  /** Holds a copy of a body: its own bytes are freed once an engine has it. @returns false if too much is held */
  hold(request: object, body: Uint8Array, at: number): boolean {
    if (this.#bytes + Math.min(body.byteLength, this.#mostOfOne) > MOST_HELD_BYTES) return false;
    const bytes = body.slice(0, this.#mostOfOne);
    this.#held.set(request, { bytes, isCut: body.byteLength > bytes.byteLength, at });
    this.#bytes += bytes.byteLength;
    this.#gone.register(request, bytes.byteLength, request);
    return true;
  }

  /** Returns the body of a request and holds it no more; null: it was not held. */
  take(request: object): Held | null {
    const held = this.#held.get(request) ?? null;
    if (held === null) return null;
    this.#held.delete(request);
    this.#gone.unregister(request);
    this.#bytes -= held.bytes.byteLength;
    return held;
  }
}
