import { type ChildProcess, spawn } from 'node:child_process';
import type { Socket } from 'node:net';
import { constants } from 'node:os';
import { EXIT } from './exit-codes.ts';

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
 * @param graceSeconds if this process is killed: the time between SIGTERM and SIGKILL for the group; 0 kills it at once
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

/**
 * Ends the process groups of an owner that was killed before it could do so itself (`kill -9`, out of memory).
 *
 * A small detached shell reads commands from a pipe. The kernel closes the pipe when this process ends in any way;
 * every group still watched then gets SIGTERM, and SIGKILL after its grace period.
 */
interface Watchdog {
  /** Watches a group. @param graceSeconds the time between SIGTERM and SIGKILL; 0 sends SIGKILL at once */
  watch(groupId: number, graceSeconds?: number): void;
  /** Stops watching a group that has ended: its id may be reused. */
  forget(groupId: number): void;
}

/** The shell's program. It reads a command from each line: `watch GROUP GRACE` or `forget GROUP`. */
const SCRIPT = `
watched=""
while read -r command group grace; do
  rest=""
  for entry in $watched; do
    [ "\${entry%:*}" = "$group" ] || rest="$rest $entry"
  done
  watched="$rest"
  [ "$command" = watch ] && watched="$watched $group:$grace"
done
for entry in $watched; do
  group="\${entry%:*}"
  (
    left=$(( \${entry#*:} * 10 ))
    [ "$left" -gt 0 ] && kill -s TERM -- "-$group" 2>/dev/null
    while [ "$left" -gt 0 ] && kill -s 0 -- "-$group" 2>/dev/null; do
      sleep 0.1
      left=$((left - 1))
    done
    kill -s KILL -- "-$group" 2>/dev/null
  ) &
done
wait
`;

/** Starts the shell, which exits with this process and does not keep it alive. */
export function startWatchdog(): Watchdog {
  const shell = spawn('/bin/sh', ['-c', SCRIPT], {
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
    cwd: '/',
    env: { PATH: process.env.PATH ?? '/usr/bin:/bin' },
  });
  const commands = shell.stdin;
  // If there is no shell, or the watchdog was killed, the protection is lost but this process continues.
  shell.on('error', () => {});
  commands?.on('error', () => {});
  shell.unref();
  (commands as unknown as Socket | null)?.unref();
  return {
    watch: (groupId, graceSeconds = 2) => commands?.write(`watch ${groupId} ${Math.ceil(graceSeconds)}\n`),
    forget: (groupId) => commands?.write(`forget ${groupId} 0\n`),
  };
}
