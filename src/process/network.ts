/** This file judges names and addresses of hosts. It runs in any runtime: the gateway on Cloudflare imports it too. */

/** Returns whether listening at this address means every address of the machine. */
export function isEverywhere(host: string): boolean {
  return ['0.0.0.0', '*', '::', '[::]'].includes(host);
}

/** Returns the host for a URL that reaches a server at this address: connecting to `0.0.0.0` is not portable. */
export function dialableHost(host: string): string {
  if (host === '0.0.0.0' || host === '*') return '127.0.0.1';
  if (host === '::' || host === '[::]') return '[::1]';
  return host.includes(':') && !host.startsWith('[') ? `[${host}]` : host;
}

/** Returns whether a host name or address, with or without brackets, is this machine's loopback (RFC 6761 §6.3). */
export function isLoopback(host: string): boolean {
  const name = host.toLowerCase();
  return (
    name === 'localhost' ||
    name.endsWith('.localhost') ||
    name === '::1' ||
    name === '[::1]' ||
    /^127(\.\d{1,3}){3}$/.test(name)
  );
}
