/** The kinds of problems that the attention list has. Rules of alerts name them, so they stay the same. */
export const PROBLEM_KINDS = [
  'no_ready_worker',
  'starts_fail',
  'launcher_silent',
  'provider_silent',
  'budget_reached',
  'rollout_stopped',
  'rollout_stuck',
  'jobs_wait',
  'worker_error',
  'worker_lost',
  'start_slow',
  'engine_backlog',
  'token_refused',
  'objective_missed',
  /** A caller's own mistake, which is listed and never told to a receiver. */
  'unknown_model',
] as const;
