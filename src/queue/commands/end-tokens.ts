import type { EndedToken } from '../../settings/token-entry.ts';
import { endUnfinished } from '../attempts/end.ts';
import { closeForToken } from '../attempts/ended-token.ts';
import type { Core } from '../state/state.ts';

/**
 * Ends what depends on tokens that were revoked, rotated or given other rights: their workers dial again, and requests
 * that wait with a secret that is gone end. Stored jobs go on, as do all other tenants.
 */
export function endTokens(core: Core, ended: readonly EndedToken[]): void {
  const secrets = new Set(ended.map(({ sha256 }) => sha256));
  for (const connection of core.connections()) {
    if (!secrets.has(connection.token?.sha256 ?? '')) continue;
    closeForToken(core, connection, 'the token of this worker has changed');
  }
  const gone = new Set(ended.filter(({ isGone }) => isGone).map(({ name }) => name));
  for (const job of gone.size > 0 ? core.waiting.all() : []) {
    if (!gone.has(job.token_name ?? '')) continue;
    const message = `the token "${job.token_name}" was revoked or rotated while this request ran`;
    endUnfinished(core, job, 'cancelled', 'cancelled', message);
  }
}
