/** What the number of workers follows from. */
export interface WantInputs {
  /** Jobs a second, and how long one occupies a slot, s. */
  arrivals: { short: number; long: number };
  service: number;
  waiting: number;
  /** Jobs of callers that run. */
  running: number;
  ready: number;
  /** Slots of a worker. */
  slots: number;
  /** Share of them that is planned to be busy: u. */
  utilization: number;
  /** How long a job should wait at most: G, s. */
  wanted_wait: number;
  /** From the decision to ready: C, s. */
  start: number;
}

export interface Want {
  workers: number;
  /** Slots that arrivals keep busy. */
  busy: number;
  /** Slot-seconds of what waits. */
  backlog: number;
}

/**
 * How many workers callers need: for what arrives, and to have worked off what waits by the time that a worker which is
 * launched now has been up for the wanted wait.
 */
export function wantForCallers(inputs: WantInputs): Want {
  const { arrivals, service, waiting, running, ready, slots, utilization, wanted_wait, start } = inputs;
  const busy = Math.max(arrivals.short, arrivals.long) * service;
  const backlog = waiting * service;
  const growth = backlog > 0 ? Math.max(0, busy - ready * slots) * start : 0;
  const workers = Math.ceil(
    busy / (utilization * slots) + (backlog + growth) / (slots * (start + wanted_wait)) - 1e-9,
  );
  return { workers: Math.max(workers, waiting + running > 0 ? 1 : 0), busy, backlog };
}
