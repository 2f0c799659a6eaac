import { failureExitCode } from '../engine/kinds/failures.ts';
import type { FailureKind } from '../engine/kinds/report.ts';
import { doubling } from '../process/backoff.ts';
import { EXIT, isSameSignal, type ReceivedSignal } from '../process/index.ts';
import { ENGINE_STOP_MS, KILL_MS, WORKER_MARGIN_MS } from '../process/way-down.ts';
import type { Action, Situation, SupervisorEvent } from './situation.ts';

/** The worker may take this long to report and release its jobs after the engine has died, ms. */
const WORKER_AFTER_ENGINE_MS = 5000;
/**
 * The worker may take this long if the engine was never healthy, ms: on a busy machine it may still be starting itself.
 */
const WORKER_AFTER_FAILED_START_MS = 20_000;
/** The pause before the first restart, ms; it doubles with each further restart. */
const RESTART_AFTER_MS = 1000;
const RESTART_AFTER_AT_MOST_MS = 60_000;
/** An engine that was healthy this long, ms, starts afresh: earlier restarts no longer count. */
export const RESTARTS_FORGIVEN_MS = 10 * 60_000;

const DIED_OF_SIGTERM = 128 + 15;

type Decision = [Situation, Action[]];

export interface DecideSettings {
  /** Running jobs may take this long after a signal, ms. */
  graceMs: number;
  /** The most consecutive restarts of the engine. */
  maxRestarts: number;
}

/** Returns the next situation and the actions to take, in order. Pure. */
export function decide(now: Situation, event: SupervisorEvent, settings: DecideSettings): Decision {
  if (now.state === 'stopped') return [now, []];
  switch (event.event) {
    case 'machine_checked':
      return onMachineChecked(now, event, settings.maxRestarts);
    case 'engine_healthy':
      return onEngineHealthy(now, event.at);
    case 'engine_exited':
      return onEngineExited(now, event, settings.maxRestarts);
    case 'start_hung':
      return onStartHung(now, event.cause);
    case 'engine_hung':
      return onEngineHung(now, event.message);
    case 'worker_exited':
      return onWorkerExited(now, event.code);
    case 'signal':
      return onSignal(now, event, settings.graceMs);
    case 'limit_reached':
      return onLimit(now);
  }
}

function onMachineChecked(
  now: Situation,
  { problem, at }: Extract<SupervisorEvent, { event: 'machine_checked' }>,
  maxRestarts: number,
): Decision {
  // Shutdown has begun by now, without an engine.
  if (now.state !== 'starting') return [now, []];
  if (problem === null) return [{ ...now, engine: 'alive' }, [{ action: 'start_engine' }]];
  const why = { message: problem, advice: '', kind: 'bad_host' } as const;
  return onEngineExited(now, { event: 'engine_exited', ...why, lastLines: [], at }, maxRestarts);
}

/**
 * Notes the first healthy answer of an engine. The worker repeats the message each time that the engine is healthy
 * again.
 */
function onEngineHealthy(now: Situation, at: number): Decision {
  if (now.engine !== 'alive' || now.engineWasHealthy) return [now, []];
  const state = now.state === 'starting' ? 'running' : now.state;
  return [{ ...now, state, engineWasHealthy: true, healthyAt: at }, []];
}

/** Kills an engine whose start hangs; its exit is then handled like any other, with the cause that the engine named. */
function onStartHung(now: Situation, cause: string): Decision {
  if (now.engine !== 'alive' || now.state !== 'starting') return [now, []];
  const text = `the engine does not start and does not end: ${cause}; killing it`;
  return [
    now,
    [
      { action: 'say', level: 'error', text },
      { action: 'signal_engine', signal: 'SIGKILL' },
    ],
  ];
}

/** Kills a hung engine; its exit is then handled like any other. */
function onEngineHung(now: Situation, message: string): Decision {
  if (now.engine !== 'alive' || now.state !== 'running') return [now, []];
  return [
    { ...now, hang: now.hang ?? message },
    [
      { action: 'say', level: 'error', text: `${message}: killing it` },
      { action: 'signal_engine', signal: 'SIGKILL' },
    ],
  ];
}

/**
 * Handles the exit of the engine. The rest of its process group is killed in any case, since vLLM's workers outlive
 * their API server.
 */
function onEngineExited(
  now: Situation,
  exited: Extract<SupervisorEvent, { event: 'engine_exited' }>,
  maxRestarts: number,
): Decision {
  const { message, advice, kind, lastLines } = exited;
  const gone: Situation = { ...now, engine: 'gone' };
  const sweep: Action = { action: 'signal_engine', signal: 'SIGKILL' };
  if (now.state === 'stopping_engine') return stop(gone, [sweep]);
  const log = lastLines.length > 0 ? ['The end of its log:', ...lastLines.map((line) => `  | ${line}`)] : [];
  const say: Action = { action: 'say', level: 'error', text: [message, ...log].join('\n') };
  const restarts = restartsBefore(now, exited.at);
  if (now.state !== 'draining' && restarts < maxRestarts && mayPass(now, kind)) {
    return restart(gone, restarts, [sweep, say], { message, advice }, maxRestarts);
  }
  const tell: Action = {
    action: 'tell_worker',
    message: { case: 'engine_exited', message, advice, wasHealthy: now.engineWasHealthy, kind },
  };
  // A drain that has already begun keeps its own timeout, and the worker's exit code stands.
  if (now.state === 'draining') return [gone, [sweep, say, tell]];
  const exitCode = failureExitCode(kind, now.engineWasHealthy);
  const ms = now.engineWasHealthy ? WORKER_AFTER_ENGINE_MS : WORKER_AFTER_FAILED_START_MS;
  return [{ ...gone, state: 'draining', exitCode }, [sweep, say, tell, { action: 'limit', ms }]];
}

function restartsBefore({ healthyAt, restarts }: Situation, at: number): number {
  return healthyAt !== null && at - healthyAt >= RESTARTS_FORGIVEN_MS ? 0 : restarts;
}

/** Tells whether another start may succeed. Memory that was enough once may be enough again. */
function mayPass(now: Situation, kind: FailureKind): boolean {
  return kind === 'transient' || (kind === 'out_of_memory' && now.engineWasHealthy);
}

function restart(
  gone: Situation,
  before: number,
  first: Action[],
  why: { message: string; advice: string },
  maxRestarts: number,
): Decision {
  const ms = doubling(RESTART_AFTER_MS, RESTART_AFTER_AT_MOST_MS, before + 1);
  const restarts = before + 1;
  const text = `starting the engine again in ${ms / 1000} s (${restarts} of ${maxRestarts})`;
  return [
    { ...gone, state: 'waiting', restarts, engineWasHealthy: false, healthyAt: null, hang: null },
    [
      ...first,
      { action: 'say', level: 'warn', text },
      { action: 'tell_worker', message: { case: 'engine_restarting', ...why, afterMs: ms } },
      { action: 'limit', ms },
    ],
  ];
}

function onWorkerExited(now: Situation, code: number): Decision {
  // Until the worker has installed its handler, our SIGTERM kills it, which counts as an orderly end too.
  const endedAsAsked = code === DIED_OF_SIGTERM && now.signalled !== null;
  const decided: Situation = { ...now, exitCode: now.exitCode ?? (endedAsAsked ? EXIT.ok : code) };
  if (now.engine !== 'alive') return stop(decided, []);
  // A vLLM that is still loading ignores SIGTERM.
  const signal = now.engineWasHealthy ? 'SIGTERM' : 'SIGKILL';
  return [
    { ...decided, state: 'stopping_engine', killed: signal === 'SIGKILL' },
    [
      { action: 'signal_engine', signal },
      { action: 'limit', ms: signal === 'SIGKILL' ? KILL_MS : ENGINE_STOP_MS },
    ],
  ];
}

function onSignal(now: Situation, { name, at }: ReceivedSignal, graceMs: number): Decision {
  const signalled: Situation = { ...now, signalled: { name, at } };
  if (now.signalled) return isSameSignal(now.signalled, { name, at }) ? [now, []] : force(signalled, name);
  if (now.state === 'draining' || now.state === 'stopping_engine') {
    return [
      signalled,
      [{ action: 'say', level: 'info', text: `${name}: already ending; once more to end at once` }],
    ];
  }
  return [
    { ...signalled, state: 'draining' },
    [
      {
        action: 'say',
        level: 'info',
        text: `${name}: the worker finishes its jobs; once more to end at once`,
      },
      { action: 'signal_worker', signal: 'SIGTERM' },
      { action: 'limit', ms: graceMs + WORKER_MARGIN_MS },
    ],
  ];
}

function force(now: Situation, name: string): Decision {
  return stop({ ...now, exitCode: EXIT.forced }, [
    { action: 'say', level: 'warn', text: `${name} again: ending at once` },
    { action: 'signal_worker', signal: 'SIGKILL' },
    { action: 'signal_engine', signal: 'SIGKILL' },
  ]);
}

function onLimit(now: Situation): Decision {
  if (now.state === 'waiting') {
    return [{ ...now, state: 'starting', engine: 'alive' }, [{ action: 'start_engine' }]];
  }
  const who = now.state === 'draining' ? 'worker' : 'engine';
  if (now.killed) {
    const text = `the ${who} does not end even when killed: leaving it to the kernel`;
    return stop({ ...now, exitCode: now.exitCode ?? EXIT.unexpected }, [
      { action: 'signal_engine', signal: 'SIGKILL' },
      { action: 'say', level: 'error', text },
    ]);
  }
  return [
    { ...now, killed: true },
    [
      { action: 'say', level: 'warn', text: `the ${who} did not end in time: killing it` },
      { action: who === 'worker' ? 'signal_worker' : 'signal_engine', signal: 'SIGKILL' },
      { action: 'limit', ms: KILL_MS },
    ],
  ];
}

function stop(now: Situation, before: Action[]): Decision {
  return [{ ...now, state: 'stopped' }, [...before, { action: 'exit', code: now.exitCode ?? EXIT.ok }]];
}
