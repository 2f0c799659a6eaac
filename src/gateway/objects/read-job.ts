import type { SubmitJob } from '../../queue/rpc.ts';
import type { JobFacts } from '../../request-facts/job-facts.ts';

/** A job that a caller has submitted, with the facts of its payload, so that what submits it reads no short one again. */
export type ReadJob = SubmitJob & { facts?: JobFacts };

/** Characters of a payload whose facts are kept: they hold its bytes. */
export const KEPT_FACTS = 16 * 1024;
