/**
 * Ids of the files that hold payloads. The queue never sees their bytes, so their ids say what it must know of them:
 * `payload-base-DIGEST-…` where a worker that speaks only the base protocol can run the job, `payload-own-DIGEST-…` else.
 */

/** @param sha256 of the payload, in hex */
export function payloadFileId(sha256: string, suitsBase: boolean): string {
  return `payload-${suitsBase ? 'base' : 'own'}-${sha256}-${crypto.randomUUID()}`;
}

export function fileSuitsBase(id: string): boolean {
  return id.startsWith('payload-base-');
}

/** Whether the same payload lies in both. */
export function isSamePayload(one: string, other: string): boolean {
  return digestOf(one) === digestOf(other);
}

function digestOf(id: string): string | undefined {
  return id.split('-')[2];
}
