/**
 * Messages between the supervisor and the worker it started, over the Node IPC channel.
 * Discriminated by `case`.
 */

/** Steps of an engine's start, for people only: nothing is decided by them. */
const ENGINE_PHASES = [
  'starting',
  'downloading',
  'loading',
  'compiling',
  'capturing',
  'warming',
  'ready',
] as const;
export type EnginePhase = (typeof ENGINE_PHASES)[number];

/**
 * Why an engine failed, as far as it tells what to do next:
 *
 * - `bad_host`: no GPU, driver too old, hardware errors: this machine will not do it
 * - `bad_configuration`: a flag or a value that the engine refuses
 * - `bad_model`: it does not exist, may not be read, or cannot be loaded
 * - `out_of_memory`: of the GPU or of the machine
 * - `transient`: everything else; another try may succeed
 */
export type FailureKind = 'bad_host' | 'bad_configuration' | 'bad_model' | 'out_of_memory' | 'transient';

/** Supervisor → worker. */
export type SupervisorMessage =
  /** `progress`: how far the phase is (`3 of 8`, `42 %`), where the engine tells. */
  | { case: 'phase'; phase: EnginePhase; detail: string; progress?: string }
  /** The engine's process ended without being asked to. The worker reports, hands its jobs back and exits. */
  | { case: 'engine_exited'; message: string; wasHealthy: boolean; kind: FailureKind }
  /** The same, but the engine is started again after this pause: the worker fails what ran, and waits. */
  | { case: 'engine_restarting'; message: string; afterMs: number };

/** A phase in one line, for people: `loading 3 of 8`. */
export function phaseText({ phase, progress }: { phase: EnginePhase; progress?: string }): string {
  return progress ? `${phase} ${progress}` : phase;
}

/** Worker → supervisor. */
export type WorkerMessage =
  /** The worker offers slots now: the engine is healthy and the queue has answered. */
  | { case: 'ready'; models: string[] }
  /** The engine lives and makes nothing: it is to be killed. */
  | { case: 'engine_hung'; message: string }
  | { case: 'draining' }
  | { case: 'stopped' };
