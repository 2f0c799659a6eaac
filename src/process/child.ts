import type { ChildProcess } from 'node:child_process';
import { constants } from 'node:os';
import { EXIT } from './exit-codes.ts';
import { startWatchdog, type Watchdog } from './watchdog.ts';

/** The process group of a child. It is killed with this process, however this process ends. */
export interface ProcessGroup {
  /** Signals every process of the group; does nothing if none is left. */
  signal(signal: NodeJS.Signals): void;
  /** Ends the guard. The owner calls it once nothing of the group is left: its id may be reused. */
  release(): void;
}

/** The watchdog for all children of this process. */
let watchdog: Watchdog | undefined;

/**
 * Guards the group of a child that was spawned with `detached: true`.
 * @param graceSeconds if this process is killed: time between SIGTERM and SIGKILL for the group; 0 kills it at once
 */
export function guardGroup({ pid }: ChildProcess, graceSeconds: number): ProcessGroup {
  // The child could not be started; its `error` event says why.
  if (pid === undefined) return { signal: () => {}, release: () => {} };
  watchdog ??= startWatchdog();
  watchdog.watch(pid, graceSeconds);
  return {
    signal: (signal) => signalGroup(pid, signal),
    release: () => watchdog?.forget(pid),
  };
}

/** Resolves to a child's exit code; 128 + n after signal n, as in a shell, and 1 if it could not be started. */
export function exitCodeOf(child: ChildProcess): Promise<number> {
  return new Promise((done) => {
    child.once('error', () => done(EXIT.unexpected));
    child.once('exit', (code, signal) => done(code ?? 128 + (signal ? constants.signals[signal] : 0)));
  });
}

/** Signals every process of a group; does nothing if none is left. */
export function signalGroup(group: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-group, signal);
  } catch {
    // No process of the group is left.
  }
}
