import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { DEFAULT_QUEUE } from '../settings/queue-settings.ts';
import { openToRead } from './check.ts';

/**
 * Reads when each token was last used, as the queue on a state folder last noted it, at most once a minute. The queue may
 * be running.
 * @returns epoch ms by the token's hash; empty where no queue has run on the folder; null if it cannot be read now
 */
export function readTokenUses(stateDir: string): Map<string, number> | null {
  const path = join(stateDir, 'data', DEFAULT_QUEUE, 'fleet.sqlite');
  if (!existsSync(path)) return new Map();
  let database: DatabaseSync | undefined;
  try {
    database = openToRead(path);
    const rows = database.prepare('SELECT sha256, at FROM token_uses').all();
    return new Map(rows.map(({ sha256, at }) => [String(sha256), Number(at)]));
  } catch {
    // The database is damaged, busy, or of another version; the tokens themselves are in another file.
    return null;
  } finally {
    database?.close();
  }
}
