/** What the number of workers follows from. Times in s. */
export interface WantInputs {
  /** Jobs a second. */
  arrivals: number;
  /** How long a job occupies a slot. */
  service: number;
  waiting: number;
  /** Jobs of callers that run. */
  running: number;
  ready: number;
  /** Of each worker that starts: in how long it is expected to be ready. */
  ready_in: number[];
  /** Slots of a worker. */
  slots: number;
  /** Share of them that is planned to be busy: u. */
  utilization: number;
  /** How long a job should wait at most: G. */
  wanted_wait: number;
  /** From the decision to ready: C. */
  start: number;
}

export interface Want {
  /** What arrives keeps so many workers busy. */
  lasting: number;
  /** With those that work off what waits. */
  workers: number;
  /** Slots that arrivals keep busy. */
  busy: number;
  /** Slot-seconds of what waits. */
  backlog: number;
}

/** No wait is planned to be shorter: a share of a worker's slots over less time is nothing, s. */
const LEAST_WAIT = 5;

/**
 * How many workers callers need: enough for what arrives, and where something waits, enough to have worked it off when
 * a worker that is launched now has been ready for the wanted wait. Workers that start count from when they will be
 * ready, so that what is under way is not launched again.
 */
export function wantForCallers(inputs: WantInputs): Want {
  const { arrivals, service, waiting, running, ready, ready_in, slots, utilization, start } = inputs;
  const busy = arrivals * service;
  const backlog = waiting * service;
  const lasting = Math.max(Math.ceil(busy / (utilization * slots) - 1e-9), waiting + running > 0 ? 1 : 0);
  if (backlog === 0) return { lasting, workers: lasting, busy, backlog };
  const wait = Math.max(LEAST_WAIT, inputs.wanted_wait);
  const horizon = start + wait;
  const capacity = ready_in.reduce(
    (sum, seconds) => sum + slots * Math.max(0, horizon - seconds),
    ready * slots * horizon,
  );
  const left = Math.max(0, backlog + busy * horizon - capacity);
  const more = ready + ready_in.length + Math.ceil(left / (slots * wait) - 1e-9);
  // With a slot for every job that is there, more would stand idle, whatever a few arrivals seem to foretell.
  const useful = Math.ceil((waiting + running) / slots);
  return { lasting, workers: Math.max(lasting, Math.min(more, useful)), busy, backlog };
}
