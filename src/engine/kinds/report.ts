/** The steps of an engine's start, whichever engine it is. They are for people only: nothing is decided by them. */
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

/**
 * The reason why an engine failed, as far as it decides what to do next.
 *
 * - `bad_host`: no GPU, driver too old, hardware errors: this machine cannot run the engine
 * - `bad_configuration`: a flag or a value that the engine refuses
 * - `bad_model`: the model does not exist, may not be read, or cannot be loaded
 * - `out_of_memory`: too little memory of the GPU or of the machine
 * - `transient`: everything else; another try may succeed
 */
export const FAILURE_KINDS = [
  'bad_host',
  'bad_configuration',
  'bad_model',
  'out_of_memory',
  'transient',
] as const;
export type FailureKind = (typeof FAILURE_KINDS)[number];

/** The progress of one step of an engine's start. */
export interface PhaseProgress {
  /** The progress for people: `3 of 8`, `42 %`. */
  text: string;
  /** The progress from 0 to 1; left out if it is that of one file among several. */
  share?: number | undefined;
}

/** The prefix of the supervisor's lines about phases, by which its parent process recognises them. */
export const PHASE_SAID = 'engine: ';

/** A phase in one line, for people: `loading 3 of 8`. */
export function phaseText({ phase, progress }: { phase: EnginePhase; progress?: PhaseProgress }): string {
  return progress ? `${phase} ${progress.text}` : phase;
}
