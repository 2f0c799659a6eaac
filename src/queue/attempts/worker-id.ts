import { CLOSE, matchesPattern, type Register } from '../../protocol/index.ts';
import { type Core, leasedBy } from '../state/state.ts';
import type { Connection } from '../store/ports.ts';
import { findTokenName } from '../store/session-table.ts';
import { hasExpired } from './ended-token.ts';
import { closeIfHalfOpen } from './half-open.ts';

export interface Denial {
  code: number;
  /** The close frame's text: at most 123 bytes of UTF-8. */
  reason: string;
  /** The text of the error frame that is sent before the close frame. */
  message: string;
}

/** Returns why this connection may not be the worker of that id and pool; null if it may. */
export function denyWorker(core: Core, connection: Connection, frame: Register): Denial | null {
  return denyToken(core, connection, frame) ?? denyOtherMachine(core, connection, frame);
}

/**
 * Denies an id that is held by a connected worker of another machine that still answers: often both use the host name
 * as their id. A worker that restarts or reconnects is on the machine that it was on, and takes over at once.
 */
function denyOtherMachine(
  core: Core,
  connection: Connection,
  { worker_id: workerId, instance }: Register,
): Denial | null {
  const machine = instance?.machine_id ?? null;
  const holder = core.workers.byId(workerId);
  if (machine === null || !holder || holder.connection.id === connection.id) return null;
  const { machine_id = null } = holder.session;
  if (machine_id === null || machine_id === machine || closeIfHalfOpen(core, holder)) return null;
  return {
    code: CLOSE.superseded,
    reason: 'a worker of this id is connected from another machine',
    message: `a worker "${workerId}" is connected from another machine: give each worker its own CASOLA_INSTANCE_ID`,
  };
}

function denyToken(
  core: Core,
  connection: Connection,
  { worker_id: workerId, config_id }: Pick<Register, 'worker_id' | 'config_id'>,
): Denial | null {
  const { token } = connection;
  if (!token) return null;
  if (hasExpired(core, connection)) {
    // The worker dials again, and the gateway then says why it refuses the worker.
    const reason = 'the token of this worker has expired';
    return { code: CLOSE.restarting, reason, message: `the token "${token.name}" has expired` };
  }
  if (token.worker_ids !== null && !matchesPattern(token.worker_ids, workerId)) {
    return {
      code: CLOSE.forbidden,
      reason: 'this token is for other worker ids',
      message: `the token "${token.name}" is for workers named "${token.worker_ids}", not "${workerId}"`,
    };
  }
  // Without this check the worker would be given the prompts of another pool.
  if (token.config_id && token.config_id !== config_id) {
    return {
      code: CLOSE.forbidden,
      reason: 'this token is for another pool',
      message: `the token "${token.name}" is for the pool "${token.config_id}", not ${JSON.stringify(config_id)}`,
    };
  }
  const holder = holderOf(core, workerId);
  if (holder === null || holder === token.name) return null;
  return {
    code: CLOSE.superseded,
    reason: 'this worker id is in use under another token',
    message: `the worker id "${workerId}" is in use under another token: give this worker an id of its own`,
  };
}

/** Returns the name of the token under which an id is in use: its worker is connected, or may come back to its jobs. */
function holderOf(core: Core, workerId: string): string | null {
  const worker = core.workers.byId(workerId);
  if (worker) return worker.connection.token?.name ?? null;
  return leasedBy(core, workerId).length > 0 ? findTokenName(core.sql, workerId) : null;
}
