import type { EnginePhase, FailureKind, PhaseProgress } from './report.ts';

export const ENGINE_NAMES = ['vllm', 'fastdeploy', 'simulator', 'external'] as const;
export type EngineName = (typeof ENGINE_NAMES)[number];

/** What an engine that we start ourselves is told. */
export interface EngineSettings {
  model: string;
  host: string;
  port: number;
  /** The name the API answers to, where it should differ from `model`. */
  servedModelName?: string;
  /** Handed to the engine as they stand, after our own. */
  extraArgs: string[];
  /** The program to start in place of the engine's usual one, with its first arguments; null: the usual one. */
  serveCommand: readonly [string, ...string[]] | null;
}

export interface EngineCommand {
  program: string;
  args: string[];
  /** Added to the environment of the child. */
  env?: Record<string, string>;
}

/** A step of the start, read from a log line. */
export interface LogPhase {
  phase: EnginePhase;
  detail: string;
  /** How far it is, where the line tells. */
  progress?: PhaseProgress;
}

/** Why an engine ended: one line of cause, one of advice, and what kind of failure it is. */
export interface EngineFailure {
  cause: string;
  advice: string;
  kind: FailureKind;
}

/** Names on the engine's metrics page. */
export interface MetricNames {
  running: string;
  waiting: string;
  kvCacheUsage: string;
  /** Counter of the tokens generated since its start. */
  generatedTokens: string;
  /** Counter of the requests put back to wait for want of KV cache; left out where the engine has none. */
  preemptions?: string;
  /** Counters that grow whenever the engine makes something: while all stand still, it makes nothing. */
  progress: readonly string[];
}

/** Everything that differs between engines. One per file, about a screen each. */
export interface EngineDescription {
  name: EngineName;
  /** Its name for people. */
  title: string;
  /** Null: it runs already and is not ours to start or stop. */
  command: ((settings: EngineSettings) => EngineCommand) | null;
  /** It runs on GPUs, so these are checked before its first start. */
  usesGpu: boolean;
  /** It loads LoRA adapters while it runs, by vLLM's routes. */
  loadsAdapters: boolean;
  /** It can put its weights aside and take them back, by vLLM's routes, so that it can share a GPU (docs/swapping.md). */
  canSleep: boolean;
  /** It tells token ids, and continues from given ones, so that answers can be moved (docs/moving.md). */
  goesOnFromIds: boolean;
  /** How to get the program when it is not installed; null when it cannot be missing. */
  installHelp: string | null;
  /** Health routes in order of preference; the next is asked only when one answers 404. */
  healthPaths: readonly string[];
  metricsPath: string;
  /** Where the metrics page has a port of its own: which, for an engine that listens on `port`. */
  metricsPort?: (port: number) => number;
  metrics: MetricNames;
  /** How many requests it runs side by side: the flag that says so (null: it has none), and how many without it. */
  sideBySide: { flag: string | null; usual: number };
  /** The flag that says where its spans go; left out: it makes none. */
  tracingFlag?: `--${string}`;
  /** The flag by which usage says how much of a prompt its cache had; left out: it has none. */
  cachedTokensFlag?: `--${string}`;
  /** The step of the start that a log line shows, or null. */
  phaseOf(line: string): LogPhase | null;
  /** What an exit means, from its code (null: killed) and the last log lines. */
  explainExit(exitCode: number | null, lastLines: readonly string[]): EngineFailure;
  /** What a line of a starting engine says of a start that cannot succeed, whether it ends after it or not; or null. */
  decisiveFailure(line: string): EngineFailure | null;
}
