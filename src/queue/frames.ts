import type { AdapterState, AdaptersFrame, Parsed, WorkerFrame } from '../protocol/index.ts';
import { register } from './commands/register.ts';
import { progress, renew } from './commands/renew.ts';
import { release, settleError, settleResult, settleResultRef } from './commands/settle.ts';
import type { Core } from './state/state.ts';
import { profileOf, setLoad, type Worker } from './state/worker.ts';
import type { Connection, Session } from './store/ports.ts';
import { setAdapters } from './store/session-table.ts';

/** Bounds the unknown types of frames that are remembered. */
const UNKNOWN_TYPES = { most: 100, characters: 64 };

/** Passes the frames of workers to the commands that they request. */
export class Frames {
  readonly #core: Core;
  readonly #loggedTypes = new Set<string>();

  constructor(core: Core) {
    this.#core = core;
  }

  /**
   * Says whether a frame leaves the tables alone: it ends an attempt at a waiting job or reports the load, and no
   * stored job waits for the slot.
   */
  staysInMemory(connection: Connection, parsed: Parsed<WorkerFrame>): boolean {
    if (!parsed.ok) return false;
    const { waiting, stored, workers } = this.#core;
    const worker = workers.byConnection(connection);
    if (!worker || worker.session.draining || stored.pending.ofPool(worker.session.config_id) > 0)
      return false;
    const frame = parsed.value;
    switch (frame.type) {
      case 'load':
        return true;
      case 'job_result':
      case 'job_error':
      case 'job_release':
        return waiting.find(frame.job_id) !== null;
      default:
        return false;
    }
  }

  /** Handles one frame of a worker. @param newSessionId called if the frame registers the connection */
  hear(connection: Connection, parsed: Parsed<WorkerFrame>, newSessionId: () => string): void {
    const worker = this.#core.workers.byConnection(connection);
    if (!parsed.ok) {
      if (parsed.unknownType !== undefined && worker && profileOf(worker).mayBeNewer) {
        this.#logOnce(parsed.unknownType);
        return;
      }
      sendError(connection, `frame not understood: ${parsed.message}`);
      return;
    }
    const frame = parsed.value;
    if (frame.type === 'register') {
      register(this.#core, connection, frame, newSessionId());
    } else if (worker) {
      if (worker.unresponsive) this.#core.ready.worker(worker);
      worker.unresponsive = false;
      this.#handle(worker, frame);
    } else {
      sendError(connection, `"${frame.type}" before "register": register first`);
    }
  }

  #handle(worker: Worker, frame: Exclude<WorkerFrame, { type: 'register' }>): void {
    const core = this.#core;
    switch (frame.type) {
      case 'job_result':
        return settleResult(core, worker, frame);
      case 'job_error':
        return settleError(core, worker, frame);
      case 'job_release':
        return release(core, worker, frame);
      case 'job_progress':
        return progress(core, worker, frame);
      case 'renew':
        return renew(core, worker, frame);
      case 'load':
        setLoad(worker, frame);
        core.projections.onOther({ kind: 'load', worker, load: frame });
        return core.ready.worker(worker);
      case 'adapters':
        worker.adapters = told(frame);
        setAdapters(core.sql, worker.session.worker_id, worker.adapters);
        return core.ready.worker(worker);
      case 'drain':
        // The worker's process ends when all its settlements are acknowledged.
        core.projections.write();
        return setDispatch(core, worker, {
          draining: true,
          ...(frame.reason === 'preempted' && { preempted: true }),
        });
      case 'pause':
        return setDispatch(core, worker, { paused: true });
      case 'resume':
        return setDispatch(core, worker, { paused: false });
      case 'job_result_ref':
        return settleResultRef(core, worker, frame);
      default:
        frame satisfies never;
    }
  }

  #logOnce(unknown: string): void {
    const type = unknown.slice(0, UNKNOWN_TYPES.characters);
    if (this.#loggedTypes.size >= UNKNOWN_TYPES.most || this.#loggedTypes.has(type)) return;
    this.#loggedTypes.add(type);
    this.#core.log('warn', 'ignoring frames of a type this queue does not know', { type });
  }
}

function setDispatch(core: Core, worker: Worker, change: Partial<Session>): void {
  worker.session = { ...worker.session, ...change };
  worker.connection.save(worker.session);
  core.workers.changes += 1;
  core.ready.worker(worker);
}

function told({ type: _, ...adapters }: AdaptersFrame): AdapterState {
  return adapters;
}

function sendError(connection: Connection, message: string): void {
  connection.send({ type: 'error', message });
}
