import { createHash } from 'node:crypto';

/** File systems allow 255 bytes. */
const LONGEST_NAME = 200;

/**
 * The folder of a queue's databases, below the folder of data. Ids may hold anything: no two of them have one folder,
 * also where the file system does not tell capitals apart, and none leads elsewhere.
 */
export function queueFolder(queueId: string): string {
  const name = Array.from(Buffer.from(queueId), nameOf).join('');
  if (queueId.isWellFormed() && name.length <= LONGEST_NAME) return name;
  return `~${createHash('sha256').update(queueId, 'utf16le').digest('hex')}`;
}

function nameOf(byte: number): string {
  const character = String.fromCharCode(byte);
  return /[a-z\d_-]/.test(character) ? character : `%${byte.toString(16).padStart(2, '0')}`;
}
