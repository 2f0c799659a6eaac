import type { WaitingJob } from '../job.ts';

/**
 * Says, for the caller, that the request reached its deadline or time limit, and where its time went.
 * @param now epoch ms
 */
export function timePassed({ created_at, leased_at, worker_id, state }: WaitingJob, now: number): string {
  const began = state === 'leased' ? leased_at : null;
  const waited = `it waited ${seconds((began ?? now) - created_at)} for a slot`;
  const ran = began === null ? 'and got none' : `and ran ${seconds(now - began)} on worker ${worker_id}`;
  return `the time of the request is over: ${waited} ${ran}`;
}

function seconds(ms: number): string {
  return `${(Math.max(0, ms) / 1000).toFixed(1)} s`;
}
