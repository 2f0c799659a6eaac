/**
 * Makes keys in the addresses of payloads and results. Such an address is requested without a token, so its key begins
 * with a MAC of the queue's id: the gateway rejects a made-up one without asking any queue. The rest of the key is
 * compared by the queue, and is random for each job and for each attempt (queue/attempts/tickets.ts).
 */

/** The number of hex digits of the MAC: 128 bits of an HMAC-SHA256. */
export const FILE_KEY_MAC_DIGITS = 32;

/** Computes what every file key of a queue begins with. */
export async function fileKeyMac(secret: string, queueId: string): Promise<string> {
  const bytes = (text: string) => new TextEncoder().encode(text);
  const algorithm = { name: 'HMAC', hash: 'SHA-256' };
  const key = await crypto.subtle.importKey('raw', bytes(secret), algorithm, false, ['sign']);
  const mac = new Uint8Array(await crypto.subtle.sign('HMAC', key, bytes(`files of queue ${queueId}`)));
  const hex = Array.from(mac, (byte) => byte.toString(16).padStart(2, '0')).join('');
  return hex.slice(0, FILE_KEY_MAC_DIGITS);
}
