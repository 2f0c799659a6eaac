import { createHmac } from 'node:crypto';

/**
 * Returns the secret with which gateway processes show each other that they belong together. It stays the same over a
 * restart of the owner, so that processes that have not linked again yet reach those that have.
 */
export function peersSecret(fileKeySecret: string): string {
  return createHmac('sha256', fileKeySecret).update('peers').digest('hex');
}
