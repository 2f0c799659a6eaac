import { bytesOfBase64 } from '../protocol/text.ts';

/** This file has the settings of webhooks: it checks where they may go, and reads the key that signs them. */

/** The prefix of an entry of QUEUE_WEBHOOK_HOSTS whose host may have a private address, and use http. */
const PRIVATE = 'private:';

/** `public`: over https, at an address of the public internet. `private`: at any address, over http too. */
export type WebhookReach = 'public' | 'private';

/**
 * Returns how far a webhook may reach.
 * @param hosts comma-separated: `hooks.example.com`, `*.example.org`, `private:receiver:9000`
 * @returns null: no entry allows the URL
 */
export function webhookReach(url: URL, hosts: string): WebhookReach | null {
  const entries = hosts.split(',').map((entry) => entry.trim().toLowerCase());
  const isNamed = (name: string) => name !== '' && (name === url.hostname || name === url.host);
  if (entries.some((entry) => entry.startsWith(PRIVATE) && isNamed(entry.slice(PRIVATE.length)))) {
    return 'private';
  }
  const isListed = entries.some((entry) =>
    entry.startsWith('*.')
      ? url.hostname.endsWith(entry.slice(1)) && url.hostname.length >= entry.length
      : isNamed(entry),
  );
  return isListed && url.protocol === 'https:' ? 'public' : null;
}

/** Checks the URL for alerts or events. @throws Error if nothing can be posted there */
export function checkPostUrl(text: string): void {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || !/^https?:$/.test(url.protocol)) throw new Error('expected an https:// or http:// URL');
  if (url.username || url.password) throw new Error('expected a URL without a user name and password');
}

/**
 * Returns why nothing is posted to this address, or null. The text names the host alone, since the rest may be a
 * secret.
 */
export function webhookProblem(text: string, hosts: string): string | null {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || !/^https?:$/.test(url.protocol)) return 'webhook: expected an https:// URL';
  if (url.username || url.password) {
    return 'webhook: a URL with a user name or password is not taken; the signature says who sends';
  }
  if (webhookReach(url, hosts) !== null) return null;
  if (hosts === '')
    return 'webhook: this queue posts none; its operator allows hosts with QUEUE_WEBHOOK_HOSTS';
  const isOverHttp = url.protocol === 'http:' && webhookReach(new URL(`https:${text.slice(5)}`), hosts);
  return isOverHttp
    ? `webhook: ${url.host} is allowed over https only`
    : `webhook: ${url.host} is not among the hosts that QUEUE_WEBHOOK_HOSTS allows`;
}

/** Returns the key in a secret of Standard Webhooks' form, or null for another form. */
export function webhookKey(secret: string): Uint8Array<ArrayBuffer> | null {
  const base64 = /^whsec_([A-Za-z0-9+/]+={0,2})$/.exec(secret)?.[1];
  if (base64 === undefined || base64.length % 4 !== 0) return null;
  const key = bytesOfBase64(base64);
  return key.byteLength >= 24 && key.byteLength <= 64 ? key : null;
}

/**
 * Returns why these settings cannot be used together, or null.
 * @param isPrivate says whether a host, as URLs write it, is none of the public internet
 */
export function webhookSettingsProblem(
  given: { hosts: string; secret: string; url?: string | undefined },
  isPrivate: (host: string) => boolean = () => false,
): string | null {
  if (given.secret !== '' && webhookKey(given.secret) === null) {
    return 'QUEUE_WEBHOOK_SECRET must be "whsec_" and 24 to 64 bytes in base64, for example from: echo "whsec_$(openssl rand -base64 32)"';
  }
  if (given.hosts !== '' && given.secret === '') {
    return 'QUEUE_WEBHOOK_HOSTS needs QUEUE_WEBHOOK_SECRET, which signs what is posted. Make one: echo "whsec_$(openssl rand -base64 32)"';
  }
  for (const entry of given.hosts.split(',').map((text) => text.trim())) {
    const url = `https://${entry}`;
    if (!entry.startsWith(PRIVATE) && URL.canParse(url) && isPrivate(new URL(url).hostname))
      return `QUEUE_WEBHOOK_HOSTS: ${entry} is a private address: write "${PRIVATE}${entry}" to allow it.`;
  }
  if (given.url && given.hosts === '') {
    return 'QUEUE_WEBHOOK_URL needs QUEUE_WEBHOOK_HOSTS, which names the hosts to which may be posted: its own host among them.';
  }
  const problem = given.url ? webhookProblem(given.url, given.hosts) : null;
  return problem?.replace('webhook', 'QUEUE_WEBHOOK_URL') ?? null;
}

/** The rows of the settings of webhooks, for the table of settings (queue-settings.ts). */
export const WEBHOOK_SETTINGS = {
  webhook_hosts: {
    kind: 'text',
    default: '',
    help: 'hosts to which settlements may be posted, comma-separated: `hooks.example.com`, `*.example.org`; public addresses over https, but for `private:receiver:9000`',
  },
  webhook_secret: {
    kind: 'text',
    default: '',
    help: 'signs webhooks: `whsec_` and 24 to 64 bytes in base64; required with QUEUE_WEBHOOK_HOSTS',
  },
  webhook_url: {
    kind: 'text',
    default: '',
    check: checkPostUrl,
    help: 'the ends of responses in the background and of batches are posted here, as OpenAI posts them; its host is one of QUEUE_WEBHOOK_HOSTS; [webhooks](responses.md#webhooks)',
  },
} as const;
