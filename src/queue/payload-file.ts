/**
 * Makes and reads the ids of files that hold payloads. The queue never sees the files' bytes, so an id says what the
 * queue must know of them: `payload-base-DIGEST-…` where a worker that speaks only the base protocol can run the job,
 * `payload-own-DIGEST-…` otherwise.
 */

/** Makes the id of a new payload file. @param sha256 the digest of the payload, in hex */
export function payloadFileId(sha256: string, suitsBase: boolean): string {
  return `payload-${suitsBase ? 'base' : 'own'}-${sha256}-${crypto.randomUUID()}`;
}

export function fileSuitsBase(id: string): boolean {
  return id.startsWith('payload-base-');
}

/** Says whether two files hold the same payload. */
export function isSamePayload(one: string, other: string): boolean {
  return digestOf(one) === digestOf(other);
}

function digestOf(id: string): string | undefined {
  return id.split('-')[2];
}
