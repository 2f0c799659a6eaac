import { closeSync, openSync, renameSync, writeSync } from 'node:fs';
import { PHASE_SAID } from '../engine/kinds/report.ts';
import { type LogDestination, type Logger, localDestination, prettyLines } from '../process/index.ts';
import { ProgressLine } from './progress.ts';

/** A log that has grown to this many bytes is renamed to `NAME.1`. */
const MOST_BYTES = 64 * 1024 ** 2;
/** The line is redrawn at this interval, ms, so that a long start is seen to continue. */
const TICK_MS = 1000;

/** The log of engine and worker in a file, which each start begins anew. */
export class LogFile {
  readonly path: string;
  readonly #mostBytes: number;
  #descriptor: number | null = null;
  #bytes = 0;

  constructor(path: string, mostBytes = MOST_BYTES) {
    this.path = path;
    this.#mostBytes = mostBytes;
  }

  /** Writes to the file. @throws Error when the file cannot be written */
  write(text: string): void {
    if (this.#bytes >= this.#mostBytes) this.#putAside();
    this.#descriptor ??= openSync(this.path, 'w', 0o600);
    this.#bytes += writeSync(this.#descriptor, text);
  }

  #putAside(): void {
    if (this.#descriptor !== null) closeSync(this.#descriptor);
    this.#descriptor = null;
    this.#bytes = 0;
    renameSync(this.path, `${this.path}.1`);
  }
}

/** The terminal of `up`: during the start, one line below the logs shows the engine's progress. */
export class UpTerminal implements LogDestination {
  readonly #lines: LogDestination;
  readonly #progress = new ProgressLine(process.stdout);
  readonly #startedAt = performance.now();
  #phase: string | null = null;
  #tick: NodeJS.Timeout | undefined;
  #isStarting = true;

  constructor(env: NodeJS.ProcessEnv) {
    this.#lines = localDestination(env);
  }

  write(line: string): void {
    this.#progress.clear();
    this.#lines.write(line);
  }

  /** Shows a phase. @param phase the phase of the engine's start */
  showPhase(phase: string): void {
    if (!this.#isStarting) return;
    this.#phase = phase;
    this.#tick ??= setInterval(() => this.#draw(), TICK_MS);
    this.#draw();
  }

  /** Removes the line of progress: the start is over, successful or not. */
  started(): void {
    this.#isStarting = false;
    clearInterval(this.#tick);
    this.#progress.clear();
  }

  #draw(): void {
    const seconds = Math.round((performance.now() - this.#startedAt) / 1000);
    this.#progress.show(`Engine: ${this.#phase}, ${seconds} s`);
  }
}

/** Sorts the lines of supervisor, worker and engine: all of them go to the file, the important ones to the terminal. */
export class WorkerOutput {
  readonly #file: LogFile;
  readonly #terminal: UpTerminal;
  readonly #logger: Logger;
  readonly #pretty = prettyLines(false);
  #isFileLost = false;

  /** @param logger the logger whose level applies to the terminal's lines */
  constructor(file: LogFile, terminal: UpTerminal, logger: Logger) {
    this.#file = file;
    this.#terminal = terminal;
    this.#logger = logger;
  }

  /** Sorts a line. @param line JSON of a logger; any other text goes to the terminal unchanged */
  take(line: string): void {
    const said = parsed(line);
    this.#keep(said ? this.#pretty(line) : `${line}\n`);
    if (!said) return this.#terminal.write(`${line}\n`);
    const { name, level, msg } = said;
    if (name === 'engine') return;
    if (name === 'supervisor' && msg.startsWith(PHASE_SAID))
      this.#terminal.showPhase(msg.slice(PHASE_SAID.length));
    else if (this.#logger.isLevelEnabled(level)) this.#terminal.write(`${line}\n`);
  }

  #keep(text: string): void {
    if (this.#isFileLost) return;
    try {
      this.#file.write(text);
    } catch (error) {
      this.#isFileLost = true;
      const { message } = error as Error;
      this.#logger.warn(`${message}: the log of engine and worker is not written any more`);
    }
  }
}

function parsed(line: string): { name: string; level: string; msg: string } | null {
  try {
    const { name, level, msg } = JSON.parse(line);
    return typeof name === 'string' && typeof level === 'string' ? { name, level, msg: String(msg) } : null;
  } catch {
    return null;
  }
}
