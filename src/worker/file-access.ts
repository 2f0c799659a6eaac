/** Where payloads may be fetched from and results be put to. */
export interface FileAccess {
  /** Relative addresses are meant from here: the queue's own address over HTTP, with a closing slash. */
  base: string;
  /** Origins of queue and API: the token is for these, and for nobody else. */
  ownOrigins: ReadonlySet<string>;
  token: string | undefined;
  /** Host patterns beside our own, `files.example.com`, `minio:9000` or `*.example.com`; null: any over https. */
  hosts: readonly string[] | null;
}

export interface FileAccessSettings {
  /** `ws:` or `wss:`. */
  wsUrl: string;
  apiUrl: string | undefined;
  token: string | undefined;
  payloadHosts: readonly string[] | null;
}

export type Address = { ok: true; url: URL; token: string | undefined } | { ok: false; problem: string };

export function fileAccessOf({ wsUrl, apiUrl, token, payloadHosts }: FileAccessSettings): FileAccess {
  const base = `${wsUrl.replace(/^ws/, 'http').replace(/\/+$/, '')}/`;
  const own = [base, ...(apiUrl ? [apiUrl] : [])].map((url) => new URL(url).origin);
  return { base, ownOrigins: new Set(own), token, hosts: payloadHosts };
}

/**
 * The address that a queue or a redirect names, if it may be used. A problem names the host alone: the rest
 * of a presigned address is a secret.
 * @param from what a relative address is relative to; the queue if left out
 */
export function addressOf(text: string, access: FileAccess, from: string = access.base): Address {
  if (!URL.canParse(text, from)) return { ok: false, problem: 'its address is not a URL' };
  const url = new URL(text, from);
  if (access.ownOrigins.has(url.origin)) return { ok: true, url, token: access.token };
  if (url.protocol !== 'https:' && url.protocol !== 'http:') {
    return { ok: false, problem: `${url.protocol} addresses are not fetched, only http: and https:` };
  }
  if (access.hosts === null) {
    if (url.protocol === 'https:') return { ok: true, url, token: undefined };
    return {
      ok: false,
      problem: `${url.host} is not allowed over http: use https, or name the host in WORKER_PAYLOAD_HOSTS`,
    };
  }
  if (access.hosts.some((pattern) => fits(url, pattern))) return { ok: true, url, token: undefined };
  return { ok: false, problem: `${url.host} is not among the hosts that WORKER_PAYLOAD_HOSTS allows` };
}

/** `*.` stands for one or more labels, not for none. */
function fits({ hostname, host }: URL, pattern: string): boolean {
  const name = pattern.toLowerCase();
  if (name.startsWith('*.')) return hostname.endsWith(name.slice(1)) && hostname.length > name.length - 1;
  return name === hostname || name === host;
}
