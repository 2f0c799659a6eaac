/**
 * Messages between the supervisor and the worker it started, over the Node IPC channel.
 * Discriminated by `case`.
 */

/** Steps of an engine's start, for people only: nothing is decided by them. */
export const ENGINE_PHASES = [
  'starting',
  'downloading',
  'loading',
  'compiling',
  'capturing',
  'warming',
  'ready',
] as const;
export type EnginePhase = (typeof ENGINE_PHASES)[number];

/** Supervisor → worker. */
export type SupervisorMessage =
  | { case: 'phase'; phase: EnginePhase; detail: string }
  /** The engine's process ended without being asked to. The worker reports, hands its jobs back and exits. */
  | { case: 'engine_exited'; message: string; wasHealthy: boolean };

/** Worker → supervisor. */
export type WorkerMessage =
  /** The worker offers slots now: the engine is healthy and the queue has answered. */
  { case: 'ready'; models: string[] } | { case: 'draining' } | { case: 'stopped' };
