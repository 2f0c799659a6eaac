import { printable } from '../protocol/text.ts';

/** The time between two states that are written, ms. */
const EVERY_MS = { terminal: 100, elsewhere: 10_000 };

const CLEAR = '\r\x1b[2K';

/** A line that shows how far something is: redrawn on a terminal, written now and then elsewhere. */
export class ProgressLine {
  readonly #out: NodeJS.WriteStream;
  readonly #everyMs: number;
  #drawnAt: number;
  #text = '';
  #isDrawn = false;

  constructor(out: NodeJS.WriteStream) {
    this.#out = out;
    this.#everyMs = out.isTTY ? EVERY_MS.terminal : EVERY_MS.elsewhere;
    this.#drawnAt = out.isTTY ? Number.NEGATIVE_INFINITY : performance.now();
  }

  show(text: string): void {
    this.#text = printable(text);
    if (performance.now() - this.#drawnAt >= this.#everyMs) this.#draw();
  }

  /** Leaves the last state on the screen. */
  keep(): void {
    if (this.#text === '') return;
    this.#draw();
    if (this.#out.isTTY) this.#out.write('\n');
    this.#isDrawn = false;
  }

  /** Makes room for other lines; the next state is drawn below them. */
  clear(): void {
    if (this.#isDrawn && this.#out.isTTY) this.#out.write(CLEAR);
    this.#isDrawn = false;
  }

  #draw(): void {
    this.#drawnAt = performance.now();
    this.#isDrawn = true;
    this.#out.write(this.#out.isTTY ? `${CLEAR}${this.#text}` : `${this.#text}\n`);
  }
}
