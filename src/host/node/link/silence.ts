import { SILENT_BEATS } from './messages.ts';

/** Notices that nothing comes over a link any more. A long message counts while it still arrives. */
export class Silence {
  readonly #received: () => number;
  #before = -1;
  #beats = 0;

  /** @param received returns the number of bytes that have come */
  constructor(received: () => number) {
    this.#received = received;
  }

  /** Counts one beat. @returns whether the link is broken */
  beat(): boolean {
    const bytes = this.#received();
    this.#beats = bytes === this.#before ? this.#beats + 1 : 0;
    this.#before = bytes;
    return this.#beats > SILENT_BEATS;
  }
}
