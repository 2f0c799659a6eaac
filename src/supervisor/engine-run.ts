import type { EngineDescription, EngineFailure, LogPhase } from '../engine/kinds/description.ts';
import { levelOf } from '../engine/kinds/log-phases.ts';
import type { ProcessGroup } from '../process/child.ts';
import { systemClock } from '../process/clock.ts';
import type { Logger } from '../process/index.ts';
import { DecisiveLine } from './decisive-line.ts';
import { EngineLog, LineSplitter } from './engine-output.ts';
import type { EngineHandlers } from './processes.ts';

/** Progress is reported once in this time, ms: a progress bar is redrawn many times a second. */
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

  /** Why the engine hung before it was healthy; null: it did not. */
  get hang(): EngineFailure | null {
    return this.#hang;
  }

  signal(signal: NodeJS.Signals): void {
    this.#process.signal(signal);
  }

  /** Ends the start of an engine that is healthy, or gone: its lines show no phases any more. */
  started(): void {
    this.#isStarting = false;
    this.#decisive.stop();
  }

  /** Releases the process group; to be called once nothing of the group is left. */
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
