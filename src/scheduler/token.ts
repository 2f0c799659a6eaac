import { bytesOfBase64 } from '../protocol/text.ts';

/** The beginning of launched workers' tokens, by which the gateway tells them from all others. */
const PREFIX = 'wvl_';

/** The launch that a token names. */
export interface TokenOfLaunch {
  queue_id: string;
  launch_id: string;
}

/**
 * Returns the token `wvl_<queue id>.<launch id>.<HMAC>`, which is stored nowhere. The fleet object of that queue
 * decides whether a token is valid: it knows the secret and whether the launch is alive.
 */
export async function tokenOf(secret: string, of: TokenOfLaunch): Promise<string> {
  const text = textOf(of);
  return `${PREFIX}${text}.${await macOf(secret, text)}`;
}

/** Returns what a token claims, or null if it is not a launch's token. */
export function readToken(token: string): TokenOfLaunch | null {
  const [queue, launch_id, mac] = token.slice(PREFIX.length).split('.');
  if (!token.startsWith(PREFIX) || !queue || !launch_id || !mac) return null;
  try {
    return { queue_id: fromBase64Url(queue), launch_id };
  } catch {
    return null;
  }
}

/** Returns whether a token is genuine, in a time that reveals nothing of how much of it is right. */
export async function isGenuine(secret: string, token: string, of: TokenOfLaunch): Promise<boolean> {
  const expected = await tokenOf(secret, of);
  let difference = expected.length ^ token.length;
  for (let i = 0; i < expected.length; i++) difference |= expected.charCodeAt(i) ^ token.charCodeAt(i);
  return difference === 0;
}

function textOf({ queue_id, launch_id }: TokenOfLaunch): string {
  return `${toBase64Url(new TextEncoder().encode(queue_id))}.${launch_id}`;
}

async function macOf(secret: string, text: string): Promise<string> {
  const encoder = new TextEncoder();
  const algorithm = { name: 'HMAC', hash: 'SHA-256' };
  const key = await crypto.subtle.importKey('raw', encoder.encode(secret), algorithm, false, ['sign']);
  return toBase64Url(new Uint8Array(await crypto.subtle.sign('HMAC', key, encoder.encode(text))));
}

function toBase64Url(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replace(/=+$/, '');
}

function fromBase64Url(text: string): string {
  return new TextDecoder().decode(bytesOfBase64(text.replaceAll('-', '+').replaceAll('_', '/')));
}
