import { lookup as systemLookup } from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';
import type { ConnectionOptions } from 'node:tls';
import { Agent, buildConnector } from 'undici';
import { isPublicAddress, withoutBrackets } from './ip-addresses.ts';

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
