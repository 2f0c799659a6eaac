import { lookup as systemLookup } from 'node:dns';
import { BlockList, isIP, type LookupFunction } from 'node:net';
import type { ConnectionOptions } from 'node:tls';
import { Agent, buildConnector } from 'undici';

/** The error for an address that only this machine or its own network reaches; another try would not change it. */
export class PrivateAddressError extends Error {
  override name = 'PrivateAddressError';

  /** @param remedy the advice on how to allow the address */
  constructor(host: string, address: string, remedy: string) {
    const where = host === address ? `${host} is` : `${host} leads to ${address},`;
    super(`${where} a private address: ${remedy}`);
  }
}

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

/**
 * Resolves names, and fails for one without a public address: the addresses checked are those connected to.
 * @param remedy the advice on how to allow a private address
 */
export function publicLookup(remedy: string, lookup: typeof systemLookup = systemLookup): LookupFunction {
  return (host, options, done) => {
    lookup(host, { ...options, all: true }, (error, found) => {
      if (error) return done(error, []);
      const isWanted = ({ address }: { address: string }) => isPublicAddress(address);
      const addresses = found.filter(isWanted);
      const first = addresses[0];
      if (!first) return done(new PrivateAddressError(host, found[0]?.address ?? 'nowhere', remedy), []);
      if (options.all) done(null, addresses);
      else done(null, first.address, first.family);
    });
  };
}

/**
 * Makes the dispatcher with which undici's `fetch` reaches public addresses only, whatever a name resolves to. Its
 * errors have a PrivateAddressError as cause.
 */
export function publicAgent(
  remedy: string,
  lookup?: typeof systemLookup,
  tls: ConnectionOptions = {},
): Agent {
  const connect = buildConnector({ ...tls, lookup: publicLookup(remedy, lookup) });
  return new Agent({
    connect: (target, done) => {
      // No lookup checks an address that the URL itself holds.
      const host = withoutBrackets(target.hostname);
      if (isIP(host) === 0 || isPublicAddress(host)) connect(target, done);
      else done(new PrivateAddressError(host, host, remedy), null);
    },
  });
}

/** Returns the host of a URL without the brackets of an IPv6 address. */
export function withoutBrackets(host: string): string {
  return host.replace(/^\[(.*)\]$/, '$1');
}
