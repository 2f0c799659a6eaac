import type { Instance } from '../protocol/index.ts';
import type { AnswersSettings } from './answers/answers.ts';
import type { FileAccessSettings } from './files/file-access.ts';
import type { RunpodSettings } from './run/runpod-input.ts';
import type { SessionSettings } from './session/session-interface.ts';
import type { BackpressureSettings } from './telemetry/backpressure.ts';

export interface WorkerSettings extends SessionSettings, FileAccessSettings, AnswersSettings {
  instance: Instance;
  renewAfterSeconds: number;
  graceSeconds: number;
  heartbeatIntervalSeconds: number;
  /** When the container was created, epoch ms, where that is known. */
  createdAtMs?: number | undefined;
  /** Null: jobs are taken whatever the engine's gauges say. */
  backpressure: BackpressureSettings | null;
  /** As of the jobs' settings. */
  moves?: boolean;
  /** How answers of `runpod` jobs look; left out: as those of RunPod's worker without variables. */
  runpod?: RunpodSettings;
}

export interface WorkerEvents {
  /** Slots are offered: the engine is healthy and the queue has answered. */
  ready(models: string[]): void;
  /** A job failed as jobs of a dying engine do: whether it is should be found out before there are more. */
  engineDoubted(message: string): void;
  /** Everything is closed; the process should end with this code. */
  ended(exitCode: number): void;
}
