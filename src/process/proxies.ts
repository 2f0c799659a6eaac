import { BlockList, isIP } from 'node:net';
import { hostname, networkInterfaces } from 'node:os';
import * as z from 'zod';
import { readEnvironment, variable } from './environment.ts';
import { isLoopback } from './network.ts';

/** A proxy for requests. */
export interface HttpProxy {
  /** The proxy's address, with its user name and password. */
  url: URL;
  /** The address as people see it, without user name and password. */
  shown: string;
  /** The environment variable that names the proxy. */
  variable: string;
}

/** Chooses the proxy for a request, or returns null if the request goes straight to its server. */
export type ChooseProxy = (url: string | URL) => HttpProxy | null;

/** The variables that name proxies. Those in small letters take precedence, as in curl. */
const NAMES = { encrypted: ['https_proxy', 'HTTPS_PROXY'], plain: ['http_proxy', 'HTTP_PROXY'] } as const;
type ProxyName = (typeof NAMES)['encrypted' | 'plain'][number];

/** The variables of proxies, which every program reads. */
const proxyVariables = {
  https_proxy: variable.proxy().optional(),
  HTTPS_PROXY: variable.proxy().optional(),
  http_proxy: variable.proxy().optional(),
  HTTP_PROXY: variable.proxy().optional(),
  no_proxy: variable.text().optional(),
  NO_PROXY: variable.text().optional(),
};

/**
 * Reads the proxies of the environment: `HTTPS_PROXY` serves encrypted connections, `HTTP_PROXY` the rest, and neither
 * serves the hosts of `NO_PROXY` or this machine.
 * @returns null if no proxy is named
 * @throws UserError when the address of a proxy is not valid
 */
export function readProxies(env: NodeJS.ProcessEnv): ChooseProxy | null {
  const given = readEnvironment(z.object(proxyVariables), env);
  const named = (names: readonly ProxyName[]): HttpProxy | null => {
    const name = names.find((one) => given[one] !== undefined);
    if (name === undefined) return null;
    const url = new URL(given[name] as string);
    return { url, shown: `${url.protocol}//${url.host}`, variable: name };
  };
  const proxies = { encrypted: named(NAMES.encrypted), plain: named(NAMES.plain) };
  if (!proxies.encrypted && !proxies.plain) return null;
  const exceptions = exceptionsIn(given.no_proxy ?? given.NO_PROXY ?? '');
  return (target) => {
    const url = new URL(target);
    const proxy = /^(?:https|wss):$/.test(url.protocol) ? proxies.encrypted : proxies.plain;
    return proxy === null || isThisMachine(url.hostname) || exceptions(url) ? null : proxy;
  };
}

function isThisMachine(host: string): boolean {
  if (isLoopback(host) || host === '0.0.0.0' || host === '[::]') return true;
  const name = host.replace(/^\[(.*)\]$/, '$1');
  if (isIP(name) === 0) return name === hostname().toLowerCase();
  const own = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
  return own.some(({ address }) => address === name);
}

/**
 * Reads a list of hosts without a proxy, separated by commas or blanks. A name stands for itself and all names below
 * it, with or without a dot or `*.` before it; an address may be a network (`10.0.0.0/8`); a port may follow; `*`
 * stands for any characters. `http://` before a name and `/` after it are ignored.
 */
function exceptionsIn(list: string): (url: URL) => boolean {
  const entries = list
    .toLowerCase()
    .split(/[\s,]+/)
    .filter(Boolean);
  const tests = entries.map(exception);
  return (url) => tests.some((fits) => fits(url));
}

function exception(entry: string): (url: URL) => boolean {
  if (entry === '*') return () => true;
  const bare = entry.replace(/^[a-z]+:\/\//, '').replace(/\/$/, '');
  if (bare !== entry) return exception(bare);
  const network = /^\[?([\da-f.:]+)\]?\/(\d{1,3})$/.exec(entry);
  if (network) return inNetwork(network[1] as string, Number(network[2]));
  if (isIP(entry) === 6) return ({ hostname: host }) => host === new URL(`http://[${entry}]`).hostname;
  const [, name, port] = /^(\[[^\]]*\]|[^:]*)(?::(\d+))?$/.exec(entry.replace(/^\*?\./, '')) ?? [];
  if (!name) return () => false;
  const fits = name.includes('*') ? patternOf(name) : isOrIsBelow(asInAddress(name));
  return (url) => (port === undefined || port === portOf(url)) && fits(withoutDot(url.hostname));
}

function isOrIsBelow(name: string): (host: string) => boolean {
  return (host) => host === name || (isIP(host) === 0 && host.endsWith(`.${name}`));
}

function patternOf(name: string): (host: string) => boolean {
  const parts = name.split('*').map((part) => part.replaceAll(/[.[\]\\^$+?{}()|-]/g, '\\$&'));
  const pattern = new RegExp(`^${parts.join('.*')}$`);
  return (host) => pattern.test(host);
}

/** Returns a name in the form of URLs: in ASCII, without the dot that ends a fully qualified name. */
function asInAddress(name: string): string {
  const address = `http://${name}`;
  return withoutDot(URL.canParse(address) ? new URL(address).hostname : name);
}

function withoutDot(host: string): string {
  return host.replace(/\.$/, '');
}

function inNetwork(address: string, bits: number): (url: URL) => boolean {
  const family = isIP(address) === 6 ? 'ipv6' : 'ipv4';
  if (isIP(address) === 0 || bits > (family === 'ipv6' ? 128 : 32)) return () => false;
  const list = new BlockList();
  list.addSubnet(address, bits, family);
  return ({ hostname: host }) => {
    const bare = host.replace(/^\[(.*)\]$/, '$1');
    return isIP(bare) !== 0 && list.check(bare, isIP(bare) === 6 ? 'ipv6' : 'ipv4');
  };
}

/** Returns the port of an address, even if the address leaves it out. */
export function portOf({ protocol, port }: URL): string {
  return port || (/^(?:https|wss):$/.test(protocol) ? '443' : '80');
}
