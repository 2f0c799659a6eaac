/**
 * A name or an address, with a port or without: the runtime makes the request's URL of whatever a caller sends here.
 */
const HOST = /^(?:\[[\da-f:.]+\]|[\w.-]+)(?::\d{1,5})?$/i;

/** Whether a Host header is none that the gateway takes. */
export function isOddHost(host: string): boolean {
  return !HOST.test(host);
}
