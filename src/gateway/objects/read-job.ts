import type { SubmitJob } from '../../queue/rpc.ts';
import type { JobFacts } from '../../request-facts/job-facts.ts';

/**
 * A job that a caller has submitted, with the facts of its payload, so that whatever submits it need not read a short
 * payload again.
 */
export type ReadJob = SubmitJob & { facts?: JobFacts };

/** Facts are kept of payloads up to this many characters: the facts hold the payload's bytes. */
export const KEPT_FACTS = 16 * 1024;
