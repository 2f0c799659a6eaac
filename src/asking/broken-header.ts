/**
 * Response header of a stream that broke before it gave anything: a JSON BrokenReason. Another attempt may be made
 * without the caller noticing.
 */
export const BROKEN_HEADER = 'x-relay-broken';
