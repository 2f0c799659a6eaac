import type { ChildProcess } from 'node:child_process';
import { constants } from 'node:os';
import { EXIT } from './exit-codes.ts';
import { startWatchdog, type Watchdog } from './watchdog.ts';

/** The process group of a child, which is killed with this process, however this process ends. */
export interface ProcessGroup {
  /** To all of the group; nothing happens when nothing of it is left. */
  signal(signal: NodeJS.Signals): void;
  /** Nothing of the group is left: its number may be reused by somebody else. */
  release(): void;
}

/** One shell watches over all children of this process. */
let watchdog: Watchdog | undefined;

/**
 * Guards the group of a child that was spawned with `detached: true`.
 * @param graceSeconds should this process be killed: the group's time between SIGTERM and SIGKILL; 0: killed at once
 */
export function guardGroup({ pid }: ChildProcess, graceSeconds: number): ProcessGroup {
  // It could not be started; the child's `error` event says why.
  if (pid === undefined) return { signal: () => {}, release: () => {} };
  watchdog ??= startWatchdog();
  watchdog.watch(pid, graceSeconds);
  return {
    signal: (signal) => signalGroup(pid, signal),
    release: () => watchdog?.forget(pid),
  };
}

/** The exit code of a child; 128 + n after signal n, as in a shell, and 1 when it could not be started. */
export function exitCodeOf(child: ChildProcess): Promise<number> {
  return new Promise((done) => {
    child.once('error', () => done(EXIT.unexpected));
    child.once('exit', (code, signal) => done(code ?? 128 + (signal ? constants.signals[signal] : 0)));
  });
}

function signalGroup(group: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-group, signal);
  } catch {
    // Nothing of it is left.
  }
}
