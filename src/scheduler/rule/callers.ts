/** What callers ask of a pool, and what it has. Times in s. */
export interface CallerDemand {
  /** Jobs a second. */
  arrivals: number;
  /** How long a job occupies a slot. */
  service: number;
  waiting: number;
  /** Running jobs, without lines of batches. */
  running: number;
  ready: number;
  /** For each starting worker, the time until it is expected to be ready. */
  ready_in: number[];
  /** Slots of a worker. */
  slots: number;
  /** Planned share of busy slots: u. */
  utilization: number;
  /** How long a job should wait at most: G. */
  wanted_wait: number;
  /** From the decision to ready: C. */
  start: number;
}

export interface CallerWorkers {
  /** Workers that arrivals need. */
  sustained: number;
  /** `sustained`, and those that work off the backlog. */
  workers: number;
  /** Slots that arrivals keep busy. */
  busy: number;
  /** Slot-seconds of waiting jobs. */
  backlog: number;
}

/** The shortest wait that is planned for, s: over less time a worker's slots amount to nothing. */
const LEAST_WAIT = 5;

/**
 * How many workers callers need: enough for arrivals, and for a backlog, enough to have worked it off by the time that a
 * worker launched now has been ready for `wanted_wait`. A starting worker counts from when it is expected to be ready,
 * so that no second one is launched in its place.
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
  // More slots than jobs would stand idle, whatever rate a few arrivals suggest.
  const useful = Math.ceil((waiting + running) / slots);
  return { sustained, workers: Math.max(sustained, Math.min(more, useful)), busy, backlog };
}
