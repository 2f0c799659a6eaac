import { stat } from 'node:fs/promises';
import type { Logger } from '../process/index.ts';
import type { TokenEntry } from '../settings/token-entry.ts';
import { readTokenFile, tokenFile } from './tokens.ts';

/** The interval of the looks, ms: a new token works, and a removed one fails, at most this much later. */
const LOOK_EVERY_MS = 500;

/**
 * Follows the token file of a state folder, and hands over its tokens whenever it changes. A file that cannot be read,
 * or is not taken, changes nothing and is tried again.
 * @param take gets the tokens, and rejects if it cannot take them
 * @returns ends the following
 */
export function followTokens(
  stateDir: string,
  take: (tokens: TokenEntry[]) => Promise<void>,
  log: Logger | undefined,
): () => void {
  let seen: string | null = null;
  let complaint = '';
  let isLooking = false;
  const look = async () => {
    const now = await versionOf(tokenFile(stateDir));
    if (now === seen) return;
    try {
      // The first look also hands the tokens over: the file may have changed since the start read it.
      await take(await readTokenFile(stateDir));
      seen = now;
      complaint = '';
    } catch (error) {
      const { message } = error as Error;
      if (message !== complaint) log?.warn(`the tokens stay as they were: ${message}`);
      complaint = message;
    }
  };
  const timer = setInterval(async () => {
    if (isLooking) return;
    isLooking = true;
    await look();
    isLooking = false;
  }, LOOK_EVERY_MS);
  timer.unref();
  return () => clearInterval(timer);
}

/** Returns a text that differs after each change of the file, its making and removal included. */
async function versionOf(path: string): Promise<string> {
  const found = await stat(path).catch(() => null);
  return found ? `${found.ino} ${found.mtimeMs} ${found.size}` : 'none';
}
