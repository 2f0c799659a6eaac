import { createEngineClient } from '../engine/client/client.ts';
import { EngineHealth } from '../engine/client/health.ts';
import type { EngineConfiguration } from '../engine/command/configuration.ts';
import type { EngineDescription, EngineFailure, LogPhase } from '../engine/kinds/description.ts';
import { levelOf } from '../engine/kinds/log-phases.ts';
import type { ProcessGroup } from '../process/child.ts';
import { systemClock } from '../process/clock.ts';
import type { Logger } from '../process/index.ts';
import { DecisiveLine } from './decisive-line.ts';
import { EngineLog, LineSplitter } from './engine-output.ts';
import type { EngineHandlers } from './processes.ts';

/** A progress bar is redrawn many times a second; once is enough for people. */
const PROGRESS_EVERY_MS = 1000;
/** Often enough to tell a crash after the first healthy answer from a failed start. */
const HEALTH_EVERY_MS = 25;

export type StartEngine = (handlers: EngineHandlers) => ProcessGroup;

export interface EngineRunPorts {
  engine: EngineDescription;
  configuration: EngineConfiguration;
  /** Logger for the engine's own lines. */
  log: Logger;
  start: StartEngine;
  /** A phase of its start, before it is healthy. */
  onPhase(phase: LogPhase): void;
  /** Its first healthy answer; from then on only the worker checks its health. */
  onHealthy(): void;
  /** It has said why it cannot start, and hangs. */
  onHang(failure: EngineFailure): void;
  /** Its process ended and its output has been read. */
  onExit(code: number | null, startError?: Error): void;
}

/** One run of the engine's process: its output, the phases of its start, its first healthy answer. */
export class EngineRun {
  readonly #ports: EngineRunPorts;
  readonly #output: EngineLog;
  readonly #process: ProcessGroup;
  readonly #stopWatching: () => void;
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
    this.#stopWatching = this.#watchFirstHealth();
  }

  get lastLines(): readonly string[] {
    return this.#output.lastLines;
  }

  /** Why it hung before it was healthy; null: it did not. */
  get hang(): EngineFailure | null {
    return this.#hang;
  }

  signal(signal: NodeJS.Signals): void {
    this.#process.signal(signal);
  }

  /** Stops checking for the first healthy answer. */
  stopWatching(): void {
    this.#isStarting = false;
    this.#decisive.stop();
    this.#stopWatching();
  }

  /** To be called once nothing of its process group is left. */
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
        this.stopWatching();
        this.#ports.onExit(code, startError);
      },
    };
  }

  #watchFirstHealth(): () => void {
    const { configuration, engine } = this.#ports;
    const client = createEngineClient({ baseUrl: configuration.url, apiKey: configuration.apiKey, engine });
    const health = new EngineHealth({
      probe: client.probe,
      // The worker decides when to give up: it reports and exits, then the engine is stopped.
      startupTimeoutMs: Number.POSITIVE_INFINITY,
      startingEveryMs: HEALTH_EVERY_MS,
      clock: {
        now: () => performance.now(),
        setTimeout,
        clearTimeout: (timer) => clearTimeout(timer as number),
      },
      onChange: () => {
        this.stopWatching();
        this.#ports.onHealthy();
      },
    });
    health.start();
    return () => {
      health.stop();
      void client.close();
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
    // When the engine is ready is decided by the health check, not by its log.
    if (phase && phase.phase !== 'ready') this.#ports.onPhase(phase);
  }
}
