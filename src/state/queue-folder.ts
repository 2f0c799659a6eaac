import { createHash } from 'node:crypto';

/** The longest name of a folder, below the 255 bytes that file systems allow. */
const LONGEST_NAME = 200;

/**
 * Returns the folder of a queue's databases, below the data folder. Ids may hold anything: no two ids share a folder,
 * even if the file system ignores case, and no id leads out of the data folder.
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
