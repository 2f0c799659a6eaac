/** Set by test files that run others' tests with every relay in an object of its own, as on Cloudflare. */
export const RELAYS_APART = 'TEST_RELAYS_APART';

/** Bindings for the shape that the tests of this process run in: relays in the queue object unless RELAYS_APART is set. */
export function relayBindings(): Record<string, string> {
  return process.env[RELAYS_APART] ? { RELAYS_IN_QUEUE: '' } : {};
}
