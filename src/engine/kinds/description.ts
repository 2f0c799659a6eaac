import type { EngineName } from '../../protocol/index.ts';
import type { EnginePhase, FailureKind, PhaseProgress } from './report.ts';

/** The settings of an engine that is started here. */
export interface EngineSettings {
  model: string;
  host: string;
  port: number;
  /** The name that the API answers to, if it should differ from `model`. */
  servedModelName?: string;
  /** The arguments that the engine gets unchanged, after our own. */
  extraArgs: string[];
  /** The program to start instead of the engine's usual one, with its first arguments; null: the usual one. */
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
  /** The progress of the step, if the line shows it. */
  progress?: PhaseProgress;
}

/** The reason why an engine ended: one line of cause, one of advice, and the kind of failure. */
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
  /** The counter of preemptions for lack of KV cache; left out if the engine has none. */
  preemptions?: string;
  /** The counters that grow with all output of the engine: while all stand still, it produces nothing. */
  progress: readonly string[];
}

/** All that differs between engines. Each engine has a file, about a screen long. */
export interface EngineDescription {
  name: EngineName;
  /** The engine's name for people. */
  title: string;
  /** Returns the command that starts the engine; null: it is already running, and not ours to start or stop. */
  command: ((settings: EngineSettings) => EngineCommand) | null;
  /** Whether the engine runs on GPUs, which are then checked before its first start. */
  usesGpu: boolean;
  /** Whether the engine loads LoRA adapters at run time, by vLLM's routes. */
  loadsAdapters: boolean;
  /**
   * Whether the engine can put its weights aside and take them back, by vLLM's routes, and so share a GPU
   * (docs/swapping.md).
   */
  canSleep: boolean;
  /**
   * Whether the engine reports token ids and continues from given ones, so that answers can be moved (docs/moving.md).
   */
  goesOnFromIds: boolean;
  /** Whether a process beside the engine can hold its weights over its restarts, as `vllm preload` does. */
  keepsWeights: boolean;
  /** Whether the engine can read the KV cache of another engine that prefills for it, as vLLM does (docs/prefill.md). */
  readsPrefilled: boolean;
  /**
   * Whether the worker asks for `/v1/responses` by chat completions: the engine lacks that route, or its events are none
   * that OpenAI's clients can read. An engine that answers that it lacks the route is asked by chat too.
   */
  hasChatAlone: boolean;
  /** The variable from which the engine itself reads the key that it asks for; left out: it has none. */
  keyVariable?: 'VLLM_API_KEY' | 'FD_API_KEY' | 'LLAMA_API_KEY';
  /** The advice on how to install a missing program; null: it cannot be missing. */
  installHelp: string | null;
  /** Health routes in order of preference; the next is asked only when one answers 404. */
  healthPaths: readonly string[];
  metricsPath: string;
  /** Returns the port of the metrics page of an engine that listens on `port`; left out: the same port. */
  metricsPort?: (port: number) => number;
  metrics: MetricNames;
  /**
   * The requests that the engine runs concurrently: the flag that sets their number (null: there is none) with its short
   * name, and the number without it.
   */
  sideBySide: { flag: string | null; short?: string; usual: number };
  /**
   * Returns flags that the engine is started with unless somebody says otherwise, the words of each apart.
   * @param isAsked whether somebody asked for a flag
   */
  usualFlags?: (
    settings: EngineSettings,
    env: NodeJS.ProcessEnv,
    isAsked: (flag: string) => boolean,
  ) => [`--${string}`, ...string[]][];
  /** The flag that sets over how many GPUs the model is spread; left out: the engine takes all visible ones by itself. */
  gpusFlag?: `--${string}`;
  /**
   * The words of the flags that stand for variables of vLLM which this engine calls by other names, such as
   * MAX_MODEL_LEN, so that a pool keeps its variables when its engine changes. A function throws an Error that says what
   * it expects.
   */
  vllmVariables?: Readonly<Record<string, (value: string, env: NodeJS.ProcessEnv) => string[][]>>;
  /** The flag that sets the address for the engine's spans; left out: the engine makes none. */
  tracingFlag?: `--${string}`;
  /** The flag by which usage reports how much of a prompt was cached; left out: the engine has none. */
  cachedTokensFlag?: `--${string}`;
  /** Returns the step of the start that a log line shows, or null. */
  phaseOf(line: string): LogPhase | null;
  /** Explains an exit by its code (null: killed) and the last log lines. */
  explainExit(exitCode: number | null, lastLines: readonly string[]): EngineFailure;
  /**
   * Returns the failure if a starting engine's log line means that the start cannot succeed, whether or not the engine
   * ends then; else null.
   */
  decisiveFailure(line: string): EngineFailure | null;
}
