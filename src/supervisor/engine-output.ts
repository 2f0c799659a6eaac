import type { EngineDescription, LogPhase } from '../engine/kinds/description.ts';

/** The number of lines kept: enough for a traceback of several processes, whose first lines name the cause. */
const KEPT_LINES = 200;
/** A line without an end is cut at this many characters instead of growing without bound. */
const MAX_LINE = 65_536;

/** Splits one stream of output into lines. Only the last state of a progress bar redrawn with `\r` is kept. */
export class LineSplitter {
  #rest = '';

  /** Returns the complete lines, and the state of an unfinished progress bar if this chunk redrew one. */
  push(chunk: string): { lines: string[]; progress: string | null } {
    const parts = (this.#rest + chunk).split('\n');
    this.#rest = parts.pop()!.slice(-MAX_LINE);
    const lines = parts.map(lastDrawn).filter((line) => line !== '');
    const isRedrawn = this.#rest.includes('\r');
    const progress = isRedrawn ? lastDrawn(this.#rest) : null;
    if (isRedrawn) this.#rest = this.#rest.slice(this.#rest.lastIndexOf('\r'));
    return { lines, progress: progress || null };
  }

  /** Returns the unfinished line at the end of the stream, if any. */
  end(): string[] {
    const last = lastDrawn(this.#rest);
    this.#rest = '';
    return last === '' ? [] : [last];
  }
}

/** The last lines of the engine's output, and the start-up phase that they show. */
export class EngineLog {
  #lines: string[] = [];
  #phase: LogPhase | null = null;
  readonly #engine: EngineDescription;

  constructor(engine: EngineDescription) {
    this.#engine = engine;
  }

  get lastLines(): readonly string[] {
    return this.#lines;
  }

  /** Keeps a complete line. */
  keep(line: string): void {
    this.#lines.push(line);
    if (this.#lines.length > KEPT_LINES) this.#lines.shift();
  }

  /** Returns the phase that a line or a progress bar shows, if it differs from the last one returned. */
  newPhase(line: string): LogPhase | null {
    const phase = this.#engine.phaseOf(line);
    if (!phase || (phase.phase === this.#phase?.phase && phase.detail === this.#phase.detail)) return null;
    this.#phase = phase;
    return phase;
  }
}

function lastDrawn(line: string): string {
  const drawn = line.split('\r').filter((part) => part.trim() !== '');
  return (drawn.at(-1) ?? '').trimEnd();
}
