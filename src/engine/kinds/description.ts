import type { EnginePhase, FailureKind, PhaseProgress } from './report.ts';

export const ENGINE_NAMES = ['vllm', 'fastdeploy', 'simulator', 'external'] as const;
export type EngineName = (typeof ENGINE_NAMES)[number];

/** The settings of an engine that is started here. */
export interface EngineSettings {
  model: string;
  host: string;
  port: number;
  /** The name that the API answers to, if it should differ from `model`. */
  servedModelName?: string;
  /** Arguments that the engine gets as they stand, after our own. */
  extraArgs: string[];
  /** The program to start in place of the engine's usual one, with its first arguments; null: the usual one. */
  serveCommand: readonly [string, ...string[]] | null;
}

export interface EngineCommand {
  program: string;
  args: string[];
  /** Variables that are added to the environment of the engine's process. */
  env?: Record<string, string>;
}

/** A step of the start, read from a log line. */
export interface LogPhase {
  phase: EnginePhase;
  detail: string;
  /** The progress of the step, if the line tells. */
  progress?: PhaseProgress;
}

/** Why an engine ended: one line of cause, one of advice, and what kind of failure it is. */
export interface EngineFailure {
  cause: string;
  advice: string;
  kind: FailureKind;
}

/** The names of metrics on the engine's metrics page. */
export interface MetricNames {
  running: string;
  waiting: string;
  kvCacheUsage: string;
  /** The counter of the tokens generated since the engine's start. */
  generatedTokens: string;
  /** The counter of the requests put back to wait for want of KV cache; left out where the engine has none. */
  preemptions?: string;
  /** Counters that grow whenever the engine makes something: while all stand still, it makes nothing. */
  progress: readonly string[];
}

/** Everything that differs between engines. Each engine has a file, about a screen long. */
export interface EngineDescription {
  name: EngineName;
  /** The engine's name for people. */
  title: string;
  /** The command that starts the engine; null: it runs already and is not ours to start or stop. */
  command: ((settings: EngineSettings) => EngineCommand) | null;
  /** True if the engine runs on GPUs, so that these are checked before its first start. */
  usesGpu: boolean;
  /** True if the engine loads LoRA adapters while it runs, by vLLM's routes. */
  loadsAdapters: boolean;
  /**
   * True if the engine can put its weights aside and take them back, by vLLM's routes, and so share a GPU
   * (docs/swapping.md).
   */
  canSleep: boolean;
  /**
   * True if the engine reports token ids, and continues from given ones, so that answers can be moved (docs/moving.md).
   */
  goesOnFromIds: boolean;
  /** How to install the program when it is missing; null when it cannot be missing. */
  installHelp: string | null;
  /** Health routes in order of preference; the next is asked only when one answers 404. */
  healthPaths: readonly string[];
  metricsPath: string;
  /** Returns the port of the metrics page of an engine that listens on `port`; left out: it is the same. */
  metricsPort?: (port: number) => number;
  metrics: MetricNames;
  /**
   * The requests that the engine runs side by side: the flag that sets their number (null: there is none), and the
   * number without it.
   */
  sideBySide: { flag: string | null; usual: number };
  /** The flag that sets the address for the engine's spans; left out: it makes none. */
  tracingFlag?: `--${string}`;
  /** The flag by which usage says how much of a prompt the engine's cache had; left out: it has none. */
  cachedTokensFlag?: `--${string}`;
  /** Returns the step of the start that a log line shows, or null. */
  phaseOf(line: string): LogPhase | null;
  /** Explains an exit by its code (null: killed) and the last log lines. */
  explainExit(exitCode: number | null, lastLines: readonly string[]): EngineFailure;
  /**
   * Returns the failure of a starting engine after whose log line no start succeeds, whether it ends then or not; or
   * null.
   */
  decisiveFailure(line: string): EngineFailure | null;
}
