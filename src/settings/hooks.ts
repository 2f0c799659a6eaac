import { webhookKey } from './webhooks.ts';

/** This file reads the settings of hooks, and says what is wrong with them. */

/** The prefix of an address in the operator's own network, which may be over http. */
const PRIVATE = 'private:';

/** The address of a hook, and the part of the network that it may be in. */
export interface HookAddress {
  url: string;
  reach: 'public' | 'private';
}

/**
 * Reads the address of a hook: `https://policy.example.com/before`, or `private:http://127.0.0.1:9000/before`.
 * @throws Error that says what is wrong; it does not repeat the address, which may hold a secret
 */
export function parseHookAddress(text: string): HookAddress {
  const isPrivate = text.startsWith(PRIVATE);
  const address = isPrivate ? text.slice(PRIVATE.length) : text;
  const url = URL.canParse(address) ? new URL(address) : null;
  if (url === null || !/^https?:$/.test(url.protocol)) {
    throw new Error('expected an https:// URL, or "private:" and an http:// or https:// URL');
  }
  if (url.username || url.password) {
    throw new Error('expected a URL without a user name and password; the signature says who asks');
  }
  if (!isPrivate && url.protocol === 'http:') {
    throw new Error('expected https://; "private:http://…" allows http, in a network of your own');
  }
  return { url: url.href, reach: isPrivate ? 'private' : 'public' };
}

/** Checks what becomes of a request when a hook fails. @throws Error for another text */
export function checkOnFailure(text: string): void {
  if (text !== 'open' && text !== 'closed') throw new Error('expected open or closed');
}

/** The rows of the settings of hooks, for the table of settings (queue-settings.ts). */
export const HOOK_SETTINGS = {
  hook_before: {
    kind: 'text',
    check: parseHookAddress,
    help: 'each request is posted here before an engine gets it, and may be refused or changed: `https://policy.example.com/before`, or `private:http://127.0.0.1:9000/before` in a network of your own; [hooks](hooks.md)',
  },
  hook_after: {
    kind: 'text',
    check: parseHookAddress,
    help: 'the text of each answer is posted here before its caller gets it, and may be refused or changed; an address as for QUEUE_HOOK_BEFORE',
  },
  hook_secret: {
    kind: 'text',
    default: '',
    help: 'signs what hooks are asked: `whsec_` and 24 to 64 bytes in base64; required with either hook',
  },
  hook_seconds: {
    kind: 'seconds',
    default: 5,
    min: 0.1,
    max: 60,
    help: 'seconds that a hook has to answer one call; after that it has failed',
  },
  hook_on_failure: {
    kind: 'text',
    default: 'closed',
    check: checkOnFailure,
    help: 'what becomes of a request or an answer whose hook failed: `closed` refuses it, `open` lets it through as it is; the ledger of its job says which',
  },
  hook_hold: {
    kind: 'count',
    default: 100,
    min: 1,
    max: 100_000,
    help: 'characters of a stream that are held back, so that the hook sees whole what begins in one event and ends in a later one: the longest text that it looks for',
  },
} as const;

/**
 * Returns why these settings cannot be used together, or null.
 * @param isPrivate says whether a host, as URLs write it, is none of the public internet
 */
export function hookSettingsProblem(
  given: { before?: string | undefined; after?: string | undefined; secret?: string | undefined },
  isPrivate: (host: string) => boolean = () => false,
): string | null {
  const make = 'Make one: echo "whsec_$(openssl rand -base64 32)"';
  if (given.secret && webhookKey(given.secret) === null) {
    return `QUEUE_HOOK_SECRET must be "whsec_" and 24 to 64 bytes in base64. ${make}`;
  }
  const hooks = [
    { name: 'QUEUE_HOOK_BEFORE', address: given.before },
    { name: 'QUEUE_HOOK_AFTER', address: given.after },
  ].filter(({ address }) => address);
  if (hooks.length === 0) {
    const alone = 'QUEUE_HOOK_SECRET is set, but no hook is: set QUEUE_HOOK_BEFORE or QUEUE_HOOK_AFTER, or';
    return given.secret ? `${alone} leave the secret out (docs/hooks.md).` : null;
  }
  if (!given.secret)
    return `${hooks[0]!.name} needs QUEUE_HOOK_SECRET, which signs what the hook is asked. ${make}`;
  for (const { name, address } of hooks) {
    const { url, reach } = parseHookAddress(address!);
    const { hostname } = new URL(url);
    if (reach === 'public' && isPrivate(hostname))
      return `${name}: ${hostname} is a private address: write "private:" before the URL to allow it.`;
  }
  return null;
}
