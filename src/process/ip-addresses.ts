import { BlockList, isIP } from 'node:net';
import { isLoopback } from './network.ts';

/** This file tells addresses of the public internet from private ones. */

/**
 * The addresses off the public internet (IANA's special-purpose registries): own, private, shared, reserved and more.
 */
const PRIVATE = new BlockList();
for (const [network, bits] of [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['224.0.0.0', 4],
  ['240.0.0.0', 4],
] as const) {
  PRIVATE.addSubnet(network, bits, 'ipv4');
}
for (const [network, bits] of [
  // These are unspecified, loopback, and IPv4 addresses in an old notation.
  ['::', 96],
  ['64:ff9b:1::', 48],
  // This network is IPv4 behind a translator of the old kind (SIIT).
  ['::ffff:0:0:0', 96],
  // These are tunnels that hold an IPv4 address: Teredo and 6to4.
  ['2001::', 32],
  ['2002::', 16],
  ['fc00::', 7],
  ['fe80::', 10],
  ['fec0::', 10],
  ['ff00::', 8],
] as const) {
  PRIVATE.addSubnet(network, bits, 'ipv6');
}
/** The networks of translators to IPv4 (NAT64): the last 32 bits are the address that is reached. */
const NAT64 = new BlockList();
NAT64.addSubnet('64:ff9b::', 96, 'ipv6');

/** Returns whether an IP address belongs to the public internet. */
export function isPublicAddress(address: string): boolean {
  const family = isIP(address);
  if (family === 0) return false;
  if (family === 4) return !PRIVATE.check(address, 'ipv4');
  const bare = address.split('%', 1)[0] as string;
  if (NAT64.check(bare, 'ipv6')) return isPublicAddress(lastFourBytes(bare));
  // An IPv4-mapped address is checked as the IPv4 address in it.
  return !PRIVATE.check(bare, 'ipv6');
}

function lastFourBytes(address: string): string {
  // The URL parser writes any notation as groups of hexadecimal digits.
  const groups = new URL(`http://[${address}]`).hostname.slice(1, -1).split(':').slice(-2);
  const [high, low] = groups.map((group) => Number.parseInt(group || '0', 16)) as [number, number];
  return [high >> 8, high & 255, low >> 8, low & 255].join('.');
}

/** Returns the host of a URL without the brackets of an IPv6 address. */
export function withoutBrackets(host: string): string {
  return host.replace(/^\[(.*)\]$/, '$1');
}

/**
 * Returns whether the host of a URL is a private address, or a name of this machine. Other names are judged when they
 * are resolved.
 */
export function isPrivateHost(host: string): boolean {
  // A name may end with the dot of DNS's root.
  const bare = withoutBrackets(host).replace(/\.$/, '');
  return isLoopback(bare) || (isIP(bare) !== 0 && !isPublicAddress(bare));
}
