import { createHash, randomBytes } from 'node:crypto';
import { chmod, mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { SCOPES, type Scope, TokenEntry } from '../gateway/auth.ts';
import { UserError } from '../process/index.ts';
import { stateFolderError } from './state-folder.ts';

/** A token and what is kept of it. */
export interface NewToken {
  /** Shown once, stored nowhere. */
  token: string;
  entry: TokenEntry;
}

/** A random token, recognisable as one of ours. */
export function makeToken(name: string, scopes: Scope[]): NewToken {
  const token = `wv_${randomBytes(32).toString('base64url')}`;
  return { token, entry: { name, sha256: sha256(token), scopes } };
}

/**
 * Tokens from the state folder and from `QUEUE_TOKENS`.
 * @throws UserError when either cannot be understood: better no service than an open one
 */
export async function loadTokens(stateDir: string, env: NodeJS.ProcessEnv): Promise<TokenEntry[]> {
  return [...(await readTokenFile(stateDir)), ...tokensFromText(env.QUEUE_TOKENS ?? '')];
}

/** Adds a token to the state folder's file, which only its owner can read. */
export async function storeToken(stateDir: string, entry: TokenEntry): Promise<void> {
  const entries = await readTokenFile(stateDir);
  if (entries.some(({ name }) => name === entry.name)) {
    throw new UserError(`There is a token named "${entry.name}" already: choose another --name.`);
  }
  const path = tokenFile(stateDir);
  const text = `${JSON.stringify([...entries, entry], null, 2)}\n`;
  try {
    await mkdir(stateDir, { recursive: true, mode: 0o700 });
    await writeFile(`${path}.new`, text, { mode: 0o600 });
    await chmod(`${path}.new`, 0o600);
    await rename(`${path}.new`, path);
  } catch (error) {
    throw stateFolderError('store the token', stateDir, error);
  }
}

async function readTokenFile(stateDir: string): Promise<TokenEntry[]> {
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
 * Comma-separated `SCOPES:sha256:HEX` or `SCOPES:TOKEN`, the scopes joined by `+`.
 * @throws UserError that names the place, never the token
 */
export function tokensFromText(text: string): TokenEntry[] {
  const parts = text.split(',').map((part) => part.trim());
  return parts.filter(Boolean).map((part, index) => {
    const fail = (problem: string): never => {
      throw new UserError(
        `QUEUE_TOKENS, entry ${index + 1}: ${problem}. Expected scope+scope:sha256:HEX or scope+scope:TOKEN, ` +
          `with scopes of ${SCOPES.join(', ')}.`,
      );
    };
    const separator = part.indexOf(':');
    if (separator < 0) fail('it names no scope');
    const scopes = part.slice(0, separator).split('+') as Scope[];
    const unknown = scopes.find((scope) => !SCOPES.includes(scope));
    if (unknown !== undefined) fail(`the scope "${unknown}" is not known`);
    const rest = part.slice(separator + 1);
    if (rest.startsWith('sha256:') && !/^sha256:[0-9a-f]{64}$/i.test(rest))
      fail('the SHA-256 needs 64 hex digits');
    if (rest === '') fail('the token is empty');
    const hash = rest.startsWith('sha256:') ? rest.slice('sha256:'.length).toLowerCase() : sha256(rest);
    return { name: `QUEUE_TOKENS ${index + 1}`, sha256: hash, scopes };
  });
}

function tokenFile(stateDir: string): string {
  return join(stateDir, 'tokens.json');
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
