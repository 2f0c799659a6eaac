import { stat } from 'node:fs/promises';
import type { Logger } from '../process/index.ts';
import type { TokenEntry } from '../settings/token-entry.ts';
import { readTokenFile, tokenFile } from './tokens.ts';

/** A token that was made is good, and one that was taken away is not, after so long at most, ms. */
const LOOK_EVERY_MS = 500;

/**
 * Looks whether the token file of a state folder has changed, and tells its tokens when it has. What cannot be read, or
 * is not taken, leaves everything as it is, and is tried again.
 * @param take rejects where it could not take them
 * @returns ends it
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
      // The first time too: it may have changed since the start read it.
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

/** Differs after each change; of a file that is not there too. */
async function versionOf(path: string): Promise<string> {
  const found = await stat(path).catch(() => null);
  return found ? `${found.ino} ${found.mtimeMs} ${found.size}` : 'none';
}
