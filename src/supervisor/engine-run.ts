import type { EngineDescription, EngineFailure, LogPhase } from '../engine/kinds/description.ts';
import { levelOf } from '../engine/kinds/log-phases.ts';
import type { ProcessGroup } from '../process/child.ts';
import { type Clock, systemClock } from '../process/clock.ts';
import type { Logger } from '../process/index.ts';
import type { EngineHandlers } from './processes.ts';

/** The number of lines stored: enough for a traceback of several processes, whose first lines name the cause. */
const KEPT_LINES = 200;
/** A line without an end is cut at this many characters instead of growing without bound. */
const MAX_LINE = 65_536;

/** Splits one stream of output into lines. Only the last state of a progress bar redrawn with `\r` is stored. */
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

  /** Returns the unfinished line at the end of the stream, if there is one. */
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

  /** Stores a complete line. */
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

/** An engine that has said why it cannot start, and then is silent for this long, ms, hangs. */
const QUIET_MS = 5000;
/** An engine that has said why it cannot start has this long to end by itself, ms, however much it still writes. */
const AT_MOST_MS = 30_000;

export interface DecisiveLinePorts {
  engine: Pick<EngineDescription, 'decisiveFailure'>;
  clock: Clock;
  /** Called when the engine neither ended nor continued, and should be killed. */
  onHang(failure: EngineFailure): void;
}

/**
 * Watches a starting engine for a line which says that it cannot start on this machine: a driver too old, no GPU, not
 * enough memory. Most engines exit after such a line; one that hangs instead is killed early, not at the limit of its
 * start. An engine may write such a line about something that it can do without, so a further step of the start
 * withdraws the line.
 */
export class DecisiveLine {
  readonly #ports: DecisiveLinePorts;
  #failure: EngineFailure | null = null;
  #quiet: unknown = null;
  #limit: unknown = null;
  #isOver = false;

  constructor(ports: DecisiveLinePorts) {
    this.#ports = ports;
  }

  see(line: string): void {
    if (this.#isOver) return;
    const { engine, clock } = this.#ports;
    if (this.#failure === null) {
      this.#failure = engine.decisiveFailure(line);
      if (this.#failure === null) return;
      this.#limit = clock.setTimeout(() => this.#hangs(), AT_MOST_MS);
    }
    clock.clearTimeout(this.#quiet);
    this.#quiet = clock.setTimeout(() => this.#hangs(), QUIET_MS);
  }

  /** Withdraws the line, since the start has advanced. */
  goesOn(): void {
    this.#failure = null;
    this.#ports.clock.clearTimeout(this.#quiet);
    this.#ports.clock.clearTimeout(this.#limit);
  }

  /** Stops watching an engine that ended, became healthy, or is being ended. */
  stop(): void {
    this.#isOver = true;
    this.goesOn();
  }

  #hangs(): void {
    const failure = this.#failure;
    this.stop();
    if (failure) this.#ports.onHang(failure);
  }
}

/** Progress is reported at most once in this time, ms, since a progress bar is redrawn many times a second. */
const PROGRESS_EVERY_MS = 1000;

export type StartEngine = (handlers: EngineHandlers) => ProcessGroup;

export interface EngineRunPorts {
  engine: EngineDescription;
  /** The logger for the engine's own lines. */
  log: Logger;
  start: StartEngine;
  /** Called with each phase of the engine's start, before it is healthy. */
  onPhase(phase: LogPhase): void;
  /** Called when the engine has said why it cannot start, and hangs. */
  onHang(failure: EngineFailure): void;
  /** Called when the engine's process ended and its output has been read. */
  onExit(code: number | null, startError?: Error): void;
}

/** One run of the engine's process: its output, and the phases of its start. */
export class EngineRun {
  readonly #ports: EngineRunPorts;
  readonly #output: EngineLog;
  readonly #process: ProcessGroup;
  readonly #decisive: DecisiveLine;
  #hang: EngineFailure | null = null;
  #isStarting = true;
  #progressAt = Number.NEGATIVE_INFINITY;

  constructor(ports: EngineRunPorts) {
    this.#ports = ports;
    this.#output = new EngineLog(ports.engine);
    this.#decisive = new DecisiveLine({
      engine: ports.engine,
      clock: systemClock,
      onHang: (failure) => {
        this.#hang = failure;
        ports.onHang(failure);
      },
    });
    this.#process = ports.start(this.#handlers());
  }

  get lastLines(): readonly string[] {
    return this.#output.lastLines;
  }

  /** The reason why the engine hung before it was healthy; null: it did not hang. */
  get hang(): EngineFailure | null {
    return this.#hang;
  }

  signal(signal: NodeJS.Signals): void {
    this.#process.signal(signal);
  }

  /** Notes that the engine is healthy or gone, so that its lines show no phases any more. */
  started(): void {
    this.#isStarting = false;
    this.#decisive.stop();
  }

  /** Releases the process group; called once nothing of the group is left. */
  release(): void {
    this.#process.release();
  }

  #handlers(): EngineHandlers {
    const splitters = { stdout: new LineSplitter(), stderr: new LineSplitter() };
    return {
      onOutput: (stream, text) => {
        const { lines, progress } = splitters[stream].push(text);
        for (const line of lines) this.#onLine(line);
        if (progress) this.#onProgress(progress);
      },
      onExit: (code, startError) => {
        for (const splitter of [splitters.stdout, splitters.stderr]) {
          for (const line of splitter.end()) this.#onLine(line);
        }
        this.started();
        this.#ports.onExit(code, startError);
      },
    };
  }

  #onLine(line: string): void {
    this.#output.keep(line);
    this.#ports.log[levelOf(line)](line);
    this.#decisive.see(line);
    this.#onPhaseIn(line);
  }

  #onProgress(bar: string): void {
    const now = performance.now();
    if (now - this.#progressAt < PROGRESS_EVERY_MS) return;
    this.#progressAt = now;
    this.#onPhaseIn(bar);
  }

  #onPhaseIn(line: string): void {
    if (!this.#isStarting) return;
    const phase = this.#output.newPhase(line);
    if (phase) this.#decisive.goesOn();
    // The health check decides when the engine is ready, not its log.
    if (phase && phase.phase !== 'ready') this.#ports.onPhase(phase);
  }
}
