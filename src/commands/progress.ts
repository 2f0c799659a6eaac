import type { WriteStream } from 'node:tty';
import type { Counts } from './results-file.ts';

const BAR_CHARACTERS = 30;
/** On a terminal the bar is drawn anew this often at most, elsewhere a line is written, ms. */
const REDRAW_MS = 100;
const LINE_EVERY_MS = 10_000;

/** How far many jobs have come: a bar on a terminal, a line now and then elsewhere. */
export class Progress {
  readonly #total: number;
  readonly #before: number;
  readonly #out: WriteStream | NodeJS.WriteStream;
  readonly #now: () => number;
  readonly #startedAt: number;
  #drawnAt: number;
  #text = '';

  /** @param before what an earlier command had done */
  constructor(
    total: number,
    before: Counts,
    out: NodeJS.WriteStream,
    now: () => number = () => performance.now(),
  ) {
    this.#total = total;
    this.#before = before.succeeded + before.failed;
    this.#out = out;
    this.#now = now;
    this.#startedAt = now();
    this.#drawnAt = out.isTTY ? Number.NEGATIVE_INFINITY : now();
  }

  /** Writes a line of its own. */
  say(text: string): void {
    this.#out.write(`${text}\n`);
  }

  /** @param more is told after the rest */
  show(counts: Counts, more = ''): void {
    const now = this.#now();
    const done = counts.succeeded + counts.failed;
    const perSecond = ((done - this.#before) * 1000) / Math.max(1, now - this.#startedAt);
    const text = progressText(done, counts.failed, this.#total, perSecond);
    this.#text = more === '' ? text : `${text}  ${more}`;
    if (now - this.#drawnAt < (this.#out.isTTY ? REDRAW_MS : LINE_EVERY_MS)) return;
    this.#drawnAt = now;
    this.#draw();
  }

  /** The last state stays on the screen. */
  end(): void {
    if (this.#text === '') return;
    this.#draw();
    if (this.#out.isTTY) this.#out.write('\n');
  }

  #draw(): void {
    this.#out.write(this.#out.isTTY ? `\r\x1b[2K${this.#text}` : `${this.#text}\n`);
  }
}

/** `[#####-----] 50/100  12.5/s  4 s left  2 failed` */
export function progressText(done: number, failed: number, total: number, perSecond: number): string {
  const filled = Math.floor((done / total) * BAR_CHARACTERS);
  const bar = '#'.repeat(filled).padEnd(BAR_CHARACTERS, '-');
  const parts = [`[${bar}] ${done}/${total}`, `${perSecond.toFixed(1)}/s`];
  if (done < total && perSecond > 0) parts.push(`${duration((total - done) / perSecond)} left`);
  if (failed > 0) parts.push(`${failed} failed`);
  return parts.join('  ');
}

function duration(seconds: number): string {
  if (seconds < 60) return `${Math.ceil(seconds)} s`;
  if (seconds < 3600) return `${Math.ceil(seconds / 60)} min`;
  return `${(seconds / 3600).toFixed(1)} h`;
}
