import type { Duplex } from 'node:stream';

/** With less than this on the way, bytes, nobody asks how fast its peer reads. */
const MUCH_BYTES = 1024 * 1024;
/** With more than this the connection is given up: it is four times the longest frame there is. */
const MOST_BYTES = 1024 * 1024 * 1024;

const LOOK_EVERY_MS = 10_000;
/** A peer that has read nothing for so long is gone: a frame of 20 MiB takes less at 0.6 Mbit/s, ms. */
const STUCK_MS = 300_000;

/**
 * Ends a connection whose peer does not read, so that what is sent to it does not fill the memory. Frames are never left
 * out: its peer dials again and hears what it has missed.
 */
export class PeerWatch {
  readonly #stream: Duplex;
  readonly #giveUp: (why: string) => void;
  #timer: NodeJS.Timeout | null = null;
  /** Bytes on the way when they last became fewer, and when that was by a clock that nobody sets. */
  #before = 0;
  #movedAt = 0;

  /** @param giveUp is told why, a clause */
  constructor(stream: Duplex, giveUp: (why: string) => void) {
    this.#stream = stream;
    this.#giveUp = giveUp;
  }

  /** To be called after every frame. */
  sent(): void {
    const { writableLength } = this.#stream;
    if (writableLength > MOST_BYTES) this.#giveUp(`${MOST_BYTES} bytes wait for its peer`);
    if (this.#timer !== null || writableLength < MUCH_BYTES) return;
    this.#before = writableLength;
    this.#movedAt = performance.now();
    this.#timer = setInterval(() => this.#look(), LOOK_EVERY_MS);
  }

  end(): void {
    if (this.#timer) clearInterval(this.#timer);
    this.#timer = null;
  }

  #look(): void {
    const { writableLength } = this.#stream;
    if (writableLength < MUCH_BYTES) return this.end();
    const now = performance.now();
    if (writableLength < this.#before) this.#movedAt = now;
    this.#before = writableLength;
    if (now - this.#movedAt >= STUCK_MS) this.#giveUp(`its peer has read nothing for ${STUCK_MS / 1000} s`);
  }
}
