import type { FailureKind } from '../engine/kinds/report.ts';
import type { ReceivedSignal } from '../process/index.ts';
import type { SupervisorMessage } from '../worker/ipc.ts';

/**
 * States of the supervisor.
 *
 * - `starting` → `running`: first healthy answer of the engine. Begins with the check of the machine.
 * - `starting`, `running` → `waiting`: the engine exited and will be restarted after a pause.
 * - `waiting` → `starting`: the pause is over.
 * - `starting`, `running`, `waiting` → `draining`: a signal, or the engine exited for good or must not start on this
 *   machine. The worker finishes.
 * - `starting`, `running`, `draining` → `stopping_engine`: the worker has exited, the engine has not.
 * - any → `stopped`: both have exited, or a second signal forced the end.
 */
type SupervisorState = 'starting' | 'running' | 'waiting' | 'draining' | 'stopping_engine' | 'stopped';

/** Everything a decision depends on. */
export interface Situation {
  readonly state: SupervisorState;
  /** `gone`: it has no process, not yet or no longer. */
  readonly engine: 'alive' | 'gone' | 'not_ours';
  /** Since its last start. */
  readonly engineWasHealthy: boolean;
  /** When it became healthy, ms; null before. */
  readonly healthyAt: number | null;
  /** Why it is being killed for hanging, as the worker reported; null otherwise. */
  readonly hang: string | null;
  /** Consecutive restarts without a long healthy run in between. */
  readonly restarts: number;
  /** Null until something has decided it. */
  readonly exitCode: number | null;
  /** The last signal that counted; null before the first. */
  readonly signalled: ReceivedSignal | null;
  /** This state timed out and SIGKILL was sent: the next timeout ends the supervisor. */
  readonly killed: boolean;
}

export type SupervisorEvent =
  /** Before the first start. `problem`: why the engine must not be started on this machine. */
  | { event: 'machine_checked'; problem: string | null; at: number }
  | { event: 'engine_healthy'; at: number }
  /** `message`: cause and, at its end, advice; `lastLines`: the end of its log. */
  | {
      event: 'engine_exited';
      message: string;
      advice: string;
      kind: FailureKind;
      lastLines: readonly string[];
      at: number;
    }
  /** Before it was healthy it said why it cannot start, and did not end. */
  | { event: 'start_hung'; cause: string }
  /** The worker found the engine alive but without progress. */
  | { event: 'engine_hung'; message: string }
  /** `code`: exit code, or 128 + n after signal n. */
  | { event: 'worker_exited'; code: number }
  | { event: 'signal'; name: string; at: number }
  /** The time set by the last `limit` action is over. */
  | { event: 'limit_reached' };

export type Action =
  | { action: 'signal_worker'; signal: 'SIGTERM' | 'SIGKILL' }
  /** To its whole process group. */
  | { action: 'signal_engine'; signal: 'SIGTERM' | 'SIGKILL' }
  | { action: 'tell_worker'; message: SupervisorMessage }
  | { action: 'start_engine' }
  /** Replaces the limit before it. */
  | { action: 'limit'; ms: number }
  | { action: 'say'; level: 'info' | 'warn' | 'error'; text: string }
  | { action: 'exit'; code: number };

/** Before the first start. */
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
