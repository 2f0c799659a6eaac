import { createHash, randomBytes } from 'node:crypto';
import { chmod, readFile, rename, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import * as z from 'zod';
import { type Logger, UserError } from '../process/index.ts';
import { SCOPES, type Scope, type TokenBounds, TokenEntry } from '../settings/token-entry.ts';
import { makeFolder, stateFolderError } from './folder.ts';

/** A new token and its stored entry. */
interface NewToken {
  /** The token itself, which is shown once and stored nowhere. */
  token: string;
  entry: TokenEntry;
}

/**
 * Makes a random token with the prefix of this project's tokens.
 * @param bounds further fields of its entry
 */
export function makeToken(name: string, scopes: Scope[], bounds: Omit<TokenBounds, 'scopes'> = {}): NewToken {
  const token = `wv_${randomBytes(32).toString('base64url')}`;
  return { token, entry: { name, sha256: sha256(token), scopes, ...bounds } };
}

/** Adds a token to the state folder's file. @throws UserError if its name is taken */
export function storeToken(stateDir: string, entry: TokenEntry): Promise<void> {
  return changeTokenFile(stateDir, (entries) => {
    if (entries.some(({ name }) => name === entry.name)) {
      throw new UserError(`There is a token named "${entry.name}" already: choose another --name.`);
    }
    return [...entries, entry];
  });
}

/** Writes the state folder's file anew, which only its owner can read. A queue reads it again within a second. */
export async function changeTokenFile(
  stateDir: string,
  change: (entries: TokenEntry[]) => TokenEntry[],
): Promise<void> {
  const path = tokenFile(stateDir);
  const text = `${JSON.stringify(change(await readTokenFile(stateDir)), null, 2)}\n`;
  try {
    await makeFolder(stateDir);
    await writeFile(`${path}.new`, text, { mode: 0o600 });
    await chmod(`${path}.new`, 0o600);
    await rename(`${path}.new`, path);
  } catch (error) {
    throw stateFolderError('store the token', stateDir, error);
  }
}

/**
 * Reads the tokens of the state folder; empty until the first one is made.
 * @throws UserError when the file cannot be read or understood, since no service is better than an open one
 */
export async function readTokenFile(stateDir: string): Promise<TokenEntry[]> {
  const path = tokenFile(stateDir);
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw stateFolderError('read the tokens', stateDir, error);
  }
  try {
    return z.array(TokenEntry).parse(JSON.parse(text));
  } catch {
    throw new UserError(`${path} is not a token file any more: mend it, or remove it and make new tokens.`);
  }
}

/**
 * Reads the tokens of `QUEUE_TOKENS`: comma-separated `SCOPES:sha256:HEX` or `SCOPES:TOKEN`, the scopes joined by `+`.
 * `worker@ID` binds the token to the worker of that id; `*` in it stands for any characters.
 * @throws Error that names the place, never the token
 */
export function tokensFromText(text: string): TokenEntry[] {
  const parts = text.split(',').map((part) => part.trim());
  return parts.filter(Boolean).map((part, index) => {
    const problem = problemOf(part);
    if (problem !== null) {
      throw new Error(
        `entry ${index + 1}: ${problem}; expected scope+scope:sha256:HEX or scope+scope:TOKEN, ` +
          `with scopes of ${SCOPES.join(', ')}`,
      );
    }
    const { scopes, workerId, rest } = split(part);
    const hash = rest.startsWith('sha256:') ? rest.slice('sha256:'.length).toLowerCase() : sha256(rest);
    const bound = workerId === undefined ? {} : { worker_id: workerId };
    return { name: `QUEUE_TOKENS ${index + 1}`, sha256: hash, scopes: scopes as Scope[], ...bound };
  });
}

/** Returns the problem of one entry, or null. */
function problemOf(part: string): string | null {
  if (!part.includes(':')) return 'it names no scope';
  const { scopes, workerId, rest } = split(part);
  const unknown = scopes.find((scope) => !(SCOPES as readonly string[]).includes(scope));
  if (unknown !== undefined) return `the scope "${unknown}" is not known`;
  if (workerId !== undefined && !TokenEntry.shape.worker_id.safeParse(workerId).success) {
    return `"${workerId}" is not the id of a worker`;
  }
  if (rest.startsWith('sha256:') && !/^sha256:[0-9a-f]{64}$/i.test(rest)) {
    return 'the SHA-256 needs 64 hex digits';
  }
  return rest === '' ? 'the token is empty' : null;
}

function split(part: string): { scopes: string[]; workerId?: string; rest: string } {
  const separator = part.indexOf(':');
  const given = part.slice(0, separator).split('+');
  const workerId = given.find((scope) => scope.startsWith('worker@'))?.slice('worker@'.length);
  const scopes = given.map((scope) => (scope.startsWith('worker@') ? 'worker' : scope));
  return { scopes, workerId, rest: part.slice(separator + 1) };
}

/** Returns the path of a state folder's token file. */
function tokenFile(stateDir: string): string {
  return join(stateDir, 'tokens.json');
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

/** The interval of the looks at the file, ms: a new token works, and a removed one fails, at most this much later. */
const LOOK_EVERY_MS = 500;

/**
 * Follows the token file of a state folder, and hands over its tokens whenever it changes. A file that cannot be read,
 * or is not accepted, changes nothing and is tried again.
 * @param take gets the tokens, and rejects if it cannot accept them
 * @returns a function that stops the following
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

/** Returns a text that differs after each change of the file, including its creation and removal. */
async function versionOf(path: string): Promise<string> {
  const found = await stat(path).catch(() => null);
  return found ? `${found.ino} ${found.mtimeMs} ${found.size}` : 'none';
}
