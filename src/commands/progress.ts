import { printable } from '../protocol/text.ts';
import { age, rate } from '../show/format.ts';
import type { Counts } from './results-file.ts';

const BAR_CHARACTERS = 30;

/** Shows how many jobs have ended: as a bar on a terminal, or as an occasional line elsewhere. */
export class Progress {
  readonly #total: number;
  readonly #before: number;
  readonly #out: NodeJS.WriteStream;
  readonly #line: ProgressLine;
  readonly #startedAt = performance.now();

  /** @param before the counts of an earlier command */
  constructor(total: number, before: Counts, out: NodeJS.WriteStream) {
    this.#total = total;
    this.#before = before.succeeded + before.failed;
    this.#out = out;
    this.#line = new ProgressLine(out);
  }

  /** Writes a separate line. */
  say(text: string): void {
    this.#line.clear();
    this.#out.write(`${printable(text)}\n`);
  }

  /**
   * Shows the counts.
   * @param more text to be shown after the rest
   * @param isWaiting whether nothing runs: then the rate so far does not show how long the rest takes
   */
  show(counts: Counts, more = '', isWaiting = false): void {
    const done = counts.succeeded + counts.failed;
    const perSecond = ((done - this.#before) * 1000) / Math.max(1, performance.now() - this.#startedAt);
    const text = progressText(done, counts.failed, this.#total, isWaiting ? null : perSecond);
    this.#line.show(more === '' ? text : `${text}  ${more}`);
  }

  /** Leaves the last state on the screen. */
  end(): void {
    this.#line.keep();
  }
}

/** Returns a line such as `[#####-----] 50/100  12.5/s  4 s left  2 failed`. @param perSecond null: nothing runs */
export function progressText(done: number, failed: number, total: number, perSecond: number | null): string {
  const filled = Math.floor((done / total) * BAR_CHARACTERS);
  const bar = '#'.repeat(filled).padEnd(BAR_CHARACTERS, '-');
  const parts = [`[${bar}] ${done}/${total}`];
  if (perSecond !== null) parts.push(rate(perSecond, 1));
  if (done < total && perSecond) parts.push(`${age(((total - done) / perSecond) * 1000)} left`);
  if (failed > 0) parts.push(`${failed} failed`);
  return parts.join('  ');
}

/** The time between two written states, ms. */
const EVERY_MS = { terminal: 100, elsewhere: 10_000 };

const CLEAR = '\r\x1b[2K';

/** A line that shows the progress of something: redrawn on a terminal, written occasionally elsewhere. */
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
