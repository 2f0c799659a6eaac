/** The outcomes of a request; `rejected`: the queue was full, or no worker was free in time. */
export const REQUEST_OUTCOMES = ['succeeded', 'failed', 'cancelled', 'expired', 'rejected'] as const;
export type RequestOutcome = (typeof REQUEST_OUTCOMES)[number];

/** The kinds of requests: of a caller that waits on its connection, a stored job, a line of a batch. */
export const REQUEST_KINDS = ['live', 'stored', 'batch'] as const;
