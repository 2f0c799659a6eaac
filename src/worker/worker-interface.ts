import type { Instance } from '../protocol/index.ts';
import type { AnswersSettings } from './answers/answers.ts';
import type { FileAccessSettings } from './files/file-access.ts';
import type { RunpodSettings } from './run/runpod-input.ts';
import type { SessionSettings } from './session/session-state.ts';
import type { BackpressureSettings } from './telemetry/load-watch.ts';

export interface WorkerSettings extends SessionSettings, FileAccessSettings, AnswersSettings {
  instance: Instance;
  renewAfterSeconds: number;
  graceSeconds: number;
  heartbeatIntervalSeconds: number;
  /** The time at which the container was created, epoch ms, where that is known. */
  createdAtMs?: number | undefined;
  /** The settings of backpressure; null: jobs are taken whatever the engine's gauges say. */
  backpressure: BackpressureSettings | null;
  /** True if answers are moved: the engine goes on from token ids. */
  moves?: boolean;
  /** The form of answers to `runpod` jobs; left out: as of RunPod's worker without variables. */
  runpod?: RunpodSettings;
}

export interface WorkerEvents {
  /** Called when slots are offered: the engine is healthy and the queue has answered. */
  ready(models: string[]): void;
  /** Called when a job failed as jobs of a dying engine do: the engine should be probed before more jobs come. */
  engineDoubted(message: string): void;
  /** Called when everything is closed; the process should end with this code. */
  ended(exitCode: number): void;
}
