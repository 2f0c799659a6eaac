import type { FailureKind } from '../engine/kinds/report.ts';
import type { ReceivedSignal } from '../process/index.ts';
import type { SupervisorMessage } from '../worker/supervisor-channel.ts';

/**
 * The states of the supervisor:
 *
 * - `starting` → `running`: the engine's first healthy answer. `starting` begins with the check of the machine.
 * - `starting`, `running` → `waiting`: the engine exited and will be restarted after a pause.
 * - `waiting` → `starting`: the pause is over.
 * - `starting`, `running`, `waiting` → `draining`: a signal, or the engine exited for good or must not start on this
 *   machine. The worker finishes.
 * - `starting`, `running`, `draining` → `stopping_engine`: the worker has exited, the engine has not.
 * - any → `stopped`: both have exited, or a second signal forced the end.
 */
type SupervisorState = 'starting' | 'running' | 'waiting' | 'draining' | 'stopping_engine' | 'stopped';

/** All facts on which a decision depends. */
export interface Situation {
  readonly state: SupervisorState;
  /** Whether the engine has a process. `gone`: it has none, not yet or no longer. */
  readonly engine: 'alive' | 'gone' | 'not_ours';
  /** Whether the engine was healthy since its last start. */
  readonly engineWasHealthy: boolean;
  /** When the engine became healthy, ms; null before. */
  readonly healthyAt: number | null;
  /** The reason why the engine is being killed for hanging, as the worker reported it; null: it is not being killed. */
  readonly hang: string | null;
  /** The number of consecutive restarts of the engine without a long healthy run in between. */
  readonly restarts: number;
  /** The exit code; null until something has decided it. */
  readonly exitCode: number | null;
  /** The last signal that counted; null before the first. */
  readonly signalled: ReceivedSignal | null;
  /** Whether this state timed out and SIGKILL was sent: the next timeout ends the supervisor. */
  readonly killed: boolean;
}

export type SupervisorEvent =
  /** The machine was checked before the first start. `problem`: why the engine must not be started on this machine. */
  | { event: 'machine_checked'; problem: string | null; at: number }
  | { event: 'engine_healthy'; at: number }
  /** The engine ended. `message`: cause and, at its end, advice; `lastLines`: the end of its log. */
  | {
      event: 'engine_exited';
      message: string;
      advice: string;
      kind: FailureKind;
      lastLines: readonly string[];
      at: number;
    }
  /** The engine said why it cannot start, before it was healthy, and did not end. */
  | { event: 'start_hung'; cause: string }
  /** The worker found the engine alive but without progress. */
  | { event: 'engine_hung'; message: string }
  /** The worker ended. `code`: exit code, or 128 + n after signal n. */
  | { event: 'worker_exited'; code: number }
  | { event: 'signal'; name: string; at: number }
  /** The time set by the last `limit` action is over. */
  | { event: 'limit_reached' };

export type Action =
  | { action: 'signal_worker'; signal: 'SIGTERM' | 'SIGKILL' }
  /** Sends the signal to the engine's whole process group. */
  | { action: 'signal_engine'; signal: 'SIGTERM' | 'SIGKILL' }
  | { action: 'tell_worker'; message: SupervisorMessage }
  | { action: 'start_engine' }
  /** Sets a time limit, which replaces the one before it. */
  | { action: 'limit'; ms: number }
  | { action: 'say'; level: 'info' | 'warn' | 'error'; text: string }
  | { action: 'exit'; code: number };

/** Returns the situation before the first start. */
export function initialSituation(engineIsOurs: boolean): Situation {
  return {
    state: 'starting',
    engine: engineIsOurs ? 'gone' : 'not_ours',
    engineWasHealthy: false,
    healthyAt: null,
    hang: null,
    restarts: 0,
    exitCode: null,
    signalled: null,
    killed: false,
  };
}
