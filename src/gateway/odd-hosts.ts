/**
 * A Host header's form: a name or an address, with a port or without. The runtime makes the request's URL of whatever
 * a caller sends there.
 */
const HOST = /^(?:\[[\da-f:.]+\]|[\w.-]+)(?::\d{1,5})?$/i;

/** Returns whether the gateway refuses a Host header. */
export function isOddHost(host: string): boolean {
  return !HOST.test(host);
}
