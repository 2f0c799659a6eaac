/** A client for stored jobs over HTTP, for Node and browsers. */

export type { JobState, JobView, LedgerStep } from '../protocol/index.ts';
export * from './client.ts';
export * from './job-connection.ts';
export type { JobEnd } from './job-results.ts';
