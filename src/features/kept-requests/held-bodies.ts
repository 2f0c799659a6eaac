/** The most bytes that are held at once. */
const MOST_HELD_BYTES = 128 * 1024 * 1024;

/** The bodies that are held while a request runs. */
export interface Held {
  /** Its body. */
  readonly bytes: Uint8Array;
  /** Whether only the beginning is held. */
  readonly isCut: boolean;
  /** When the request came, epoch ms. */
  readonly at: number;
  /** The bytes of its body and its answer that count. */
  size: number;
}

/** Holds the bodies of requests, and what has come of their answers, until these are over, within one bound. */
export class HeldBodies {
  readonly #held = new WeakMap<object, Held>();
  /** A request that is refused after its body was held has no answer that would free it. */
  readonly #gone = new FinalizationRegistry<Held>((held) => this.#forget(held));
  readonly #mostOfOne: number;
  #bytes = 0;

  /** @param mostOfOne the bytes of one body that are held at most */
  constructor(mostOfOne: number) {
    this.#mostOfOne = mostOfOne;
  }

  /** Holds a copy of a body: its own bytes are freed once an engine has it. @returns false if too much is held */
  hold(request: object, body: Uint8Array, at: number): boolean {
    const size = Math.min(body.byteLength, this.#mostOfOne);
    if (this.#bytes + size > MOST_HELD_BYTES) return false;
    const held = { bytes: body.slice(0, size), isCut: body.byteLength > size, at, size };
    this.#held.set(request, held);
    this.#bytes += size;
    this.#gone.register(request, held, request);
    return true;
  }

  /** Returns what is held of a request; null: nothing is. */
  of(request: object): Held | null {
    return this.#held.get(request) ?? null;
  }

  /** Counts a piece of the answer with its request. @returns false if too much is held */
  more(held: Held, bytes: number): boolean {
    if (this.#bytes + bytes > MOST_HELD_BYTES) return false;
    this.#bytes += bytes;
    held.size += bytes;
    return true;
  }

  /** Holds a request no more. */
  release(request: object): void {
    const held = this.of(request);
    if (held === null) return;
    this.#held.delete(request);
    this.#gone.unregister(request);
    this.#forget(held);
  }

  #forget(held: Held): void {
    this.#bytes -= held.size;
    held.size = 0;
  }
}
