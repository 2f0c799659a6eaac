/** The demand of a pool's callers, and the workers that it has. Times are in s. */
export interface CallerDemand {
  /** Jobs that arrive a second. */
  arrivals: number;
  /** The time that a job occupies a slot. */
  service: number;
  waiting: number;
  /** Running jobs, without lines of batches. */
  running: number;
  ready: number;
  /** The time until each starting worker is expected to be ready. */
  ready_in: number[];
  /** The slots of a worker. */
  slots: number;
  /** The planned share of busy slots: u. */
  utilization: number;
  /** The time that a job should wait at most: G. */
  wanted_wait: number;
  /** The time from the decision to ready: C. */
  start: number;
}

export interface CallerWorkers {
  /** The workers that arrivals need. */
  sustained: number;
  /** `sustained`, and the workers that work off the backlog. */
  workers: number;
  /** The slots that arrivals keep busy. */
  busy: number;
  /** The work of waiting jobs, slot-seconds. */
  backlog: number;
}

/** The shortest wait that is planned for, s: in less time a worker's slots achieve next to nothing. */
const LEAST_WAIT = 5;

/**
 * Returns how many workers callers need: enough for arrivals and, where jobs wait, enough to have worked off the
 * backlog by the time that a worker launched now has been ready for `wanted_wait`. A starting worker counts from when
 * it is expected to be ready, so that no second one is launched in its place.
 */
export function workersForCallers(inputs: CallerDemand): CallerWorkers {
  const { arrivals, service, waiting, running, ready, ready_in, slots, utilization, start } = inputs;
  const busy = arrivals * service;
  const backlog = waiting * service;
  const sustained = Math.max(Math.ceil(busy / (utilization * slots) - 1e-9), waiting + running > 0 ? 1 : 0);
  if (backlog === 0) return { sustained, workers: sustained, busy, backlog };
  const wait = Math.max(LEAST_WAIT, inputs.wanted_wait);
  const horizon = start + wait;
  const capacity = ready_in.reduce(
    (sum, seconds) => sum + slots * Math.max(0, horizon - seconds),
    ready * slots * horizon,
  );
  const left = Math.max(0, backlog + busy * horizon - capacity);
  const more = ready + ready_in.length + Math.ceil(left / (slots * wait) - 1e-9);
  // More slots than jobs would be idle, whatever rate a few arrivals suggest.
  const useful = Math.ceil((waiting + running) / slots);
  return { sustained, workers: Math.max(sustained, Math.min(more, useful)), busy, backlog };
}
