import { CLOSE } from '../../protocol/index.ts';
import type { Core } from '../state/state.ts';
import type { Connection } from '../store/ports.ts';
import { loseConnection } from './lost-connection.ts';

/** Closes workers' sockets when the token that opened them ends. */

export function hasExpired(core: Core, { token }: Connection): boolean {
  return token?.expires_at !== undefined && token.expires_at <= core.now();
}

/** Closes the sockets of workers whose tokens have expired by now. */
export function closeExpired(core: Core): void {
  for (const { connection } of core.workers.all()) {
    if (hasExpired(core, connection)) closeForToken(core, connection, 'the token of this worker has expired');
  }
}

/** Returns when the next token of a connected worker expires, epoch ms; null if none does. */
export function nextExpiry(core: Core): number | null {
  const times = core.workers.all().flatMap(({ connection }) => connection.token?.expires_at ?? []);
  return times.length === 0 ? null : times.reduce((next, time) => Math.min(next, time));
}

/**
 * Closes both sockets of a worker, which dials again and is admitted if its token is good.
 * @param why the reason, at most as long as a close frame allows
 */
export function closeForToken(core: Core, connection: Connection, why: string): void {
  const worker = core.workers.byConnection(connection);
  connection.close(CLOSE.restarting, why);
  // The session is dropped, since a peer that does not answer the close stays in the host's list of sockets.
  connection.save(null);
  if (worker) core.closeAnswers(worker.session.worker_id);
  loseConnection(core, connection, why);
}
