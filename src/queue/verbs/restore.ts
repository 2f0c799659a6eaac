import type { Core } from '../state/state.ts';
import { leasedByWorker } from '../store/jobs-table.ts';
import { sessionModels } from '../store/session-table.ts';

/** After a hibernation the sockets are still there and memory is not: the fleet is read back from both stores. */
export function restoreFleet(core: Core): void {
  const sessions = core.connections().flatMap((connection) => {
    const session = connection.load();
    return session === null ? [] : [{ connection, session }];
  });
  if (sessions.length === 0) return;
  const models = sessionModels(core.sql);
  // Oldest first, so that the newest connection of a worker id is the one that counts.
  sessions.sort((a, b) => a.session.connected_at - b.session.connected_at);
  for (const { connection, session } of sessions) {
    const leased = leasedByWorker(core.sql, session.worker_id);
    core.fleet.add({
      connection,
      session,
      models: models.get(session.worker_id) ?? [],
      running: new Map(leased.map((row) => [row.id, row.fence_token])),
      load: null,
      ceiling: null,
      declined: new Set(),
      silent: false,
    });
  }
}
