import type { Duplex } from 'node:stream';

/** The watch begins once this many bytes wait for the peer. */
const MUCH_BYTES = 1024 * 1024;
/** The connection is given up once more than this many bytes wait: four times the longest frame. */
const MOST_BYTES = 1024 * 1024 * 1024;

const LOOK_EVERY_MS = 10_000;
/** A peer that has read nothing for this many ms is gone: a frame of 20 MiB takes less time at 0.6 Mbit/s. */
const STUCK_MS = 300_000;

/**
 * Ends a connection whose peer does not read, so that unsent frames do not fill the memory. No frame is skipped: the
 * peer dials again and gets what it has missed.
 */
export class PeerWatch {
  readonly #stream: Duplex;
  readonly #giveUp: (why: string) => void;
  #timer: NodeJS.Timeout | null = null;
  /** The bytes that waited at the last look, and when they last decreased, ms of `performance.now()`. */
  #before = 0;
  #movedAt = 0;

  /** @param giveUp gets the reason, a clause */
  constructor(stream: Duplex, giveUp: (why: string) => void) {
    this.#stream = stream;
    this.#giveUp = giveUp;
  }

  /** Notes that a frame was sent; the owner calls it after every frame. */
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
