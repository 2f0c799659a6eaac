import { equalInConstantTime, hexOf } from '../../../gateway/auth/tokens.ts';
import { bytesOfBase64 } from '../../../protocol/text.ts';

/**
 * Returns a value as a text that this queue knows again as its own: JSON in base64url, and a MAC of it. Whoever holds
 * it can read it.
 * @param kind what the value is for, so that none serves for another
 * @param until the end of its time, epoch ms
 */
export async function seal(value: object, kind: string, until: number, secret: string): Promise<string> {
  const bytes = new TextEncoder().encode(JSON.stringify({ ...value, until }));
  const text = btoa(String.fromCharCode(...bytes))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replace(/=+$/, '');
  return `${text}.${await macOf(kind, text, secret)}`;
}

/** Returns the value in a text of `seal`; null: it is none, or its time is over. @param now epoch ms */
export async function unseal<T>(
  sealed: string,
  kind: string,
  now: number,
  secret: string,
): Promise<T | null> {
  const [text = '', mac = ''] = sealed.split('.');
  if (!equalInConstantTime(mac, await macOf(kind, text, secret))) return null;
  const bytes = bytesOfBase64(text.replaceAll('-', '+').replaceAll('_', '/'));
  const value = JSON.parse(new TextDecoder().decode(bytes)) as T & { until: number };
  return now < value.until ? value : null;
}

async function macOf(kind: string, text: string, secret: string): Promise<string> {
  const bytes = (of: string) => new TextEncoder().encode(of);
  const algorithm = { name: 'HMAC', hash: 'SHA-256' };
  const key = await crypto.subtle.importKey('raw', bytes(secret), algorithm, false, ['sign']);
  return hexOf(new Uint8Array(await crypto.subtle.sign('HMAC', key, bytes(`${kind}.${text}`))));
}
