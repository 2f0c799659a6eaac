/**
 * Returns the headers that sign a post as Standard Webhooks says (https://www.standardwebhooks.com).
 * @param id of the post, the same however often it is sent
 * @param now epoch ms
 */
export async function signedHeaders(
  key: Uint8Array<ArrayBuffer>,
  id: string,
  now: number,
  body: string,
): Promise<Record<string, string>> {
  const timestamp = String(Math.floor(now / 1000));
  return {
    'webhook-id': id,
    'webhook-timestamp': timestamp,
    'webhook-signature': `v1,${await hmac(key, `${id}.${timestamp}.${body}`)}`,
  };
}

/** Returns the HMAC-SHA256 in base64. */
async function hmac(key: Uint8Array<ArrayBuffer>, text: string): Promise<string> {
  const algorithm = { name: 'HMAC', hash: 'SHA-256' };
  const imported = await crypto.subtle.importKey('raw', key, algorithm, false, ['sign']);
  const mac = await crypto.subtle.sign('HMAC', imported, new TextEncoder().encode(text));
  return btoa(String.fromCharCode(...new Uint8Array(mac)));
}
