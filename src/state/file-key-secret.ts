import { randomBytes } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { stateFolderError } from './folder.ts';

/**
 * Returns the secret behind the keys of payloads and results (protocol/file-keys.ts). It stays in the state folder, for
 * its owner alone, so that addresses given to workers outlive a restart.
 * @throws UserError when the folder cannot be used
 */
export async function fileKeySecret(stateDir: string): Promise<string> {
  const path = join(stateDir, 'file-key-secret');
  try {
    const kept = (await readFile(path, 'utf8').catch(missing)).trim();
    if (kept) return kept;
    const secret = randomBytes(32).toString('hex');
    await writeFile(path, `${secret}\n`, { mode: 0o600 });
    return secret;
  } catch (error) {
    throw stateFolderError('keep the secret of file keys', stateDir, error);
  }
}

function missing(error: NodeJS.ErrnoException): string {
  if (error.code === 'ENOENT') return '';
  throw error;
}
