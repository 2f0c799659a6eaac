/** The kinds of problems that receivers of alerts are told of. Rules and mutes name them, so they stay the same. */
export const ALERT_KINDS = [
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
  'heartbeats_missing',
  'start_slow',
  'engine_backlog',
  'token_refused',
  'objective_missed',
] as const;

/** The kinds of problems that the attention list has. A caller's own mistake is listed and told to nobody. */
export const PROBLEM_KINDS = [...ALERT_KINDS, 'unknown_model'] as const;
