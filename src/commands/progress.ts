import { printable } from '../protocol/text.ts';
import { age, rate } from '../show/format.ts';
import { ProgressLine } from './progress-line.ts';
import type { Counts } from './results-file.ts';

const BAR_CHARACTERS = 30;

/** Shows how many of many jobs have ended: as a bar on a terminal, as a line now and then elsewhere. */
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

  /** Writes a line of its own. */
  say(text: string): void {
    this.#line.clear();
    this.#out.write(`${printable(text)}\n`);
  }

  /**
   * Shows the counts.
   * @param more text shown after the rest
   * @param isWaiting whether nothing runs: then the rate so far does not tell how long the rest takes
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

/** Returns a line such as `[#####-----] 50/100  12.5/s  4 s left  2 failed` @param perSecond null where nothing runs */
export function progressText(done: number, failed: number, total: number, perSecond: number | null): string {
  const filled = Math.floor((done / total) * BAR_CHARACTERS);
  const bar = '#'.repeat(filled).padEnd(BAR_CHARACTERS, '-');
  const parts = [`[${bar}] ${done}/${total}`];
  if (perSecond !== null) parts.push(rate(perSecond, 1));
  if (done < total && perSecond) parts.push(`${age(((total - done) / perSecond) * 1000)} left`);
  if (failed > 0) parts.push(`${failed} failed`);
  return parts.join('  ');
}
