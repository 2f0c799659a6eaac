import { spawn } from 'node:child_process';
import type { Socket } from 'node:net';

/**
 * Ends the process groups of an owner that was killed before it could do so itself (`kill -9`, out of memory).
 *
 * A small detached shell reads commands from a pipe. The kernel closes the pipe when this process ends, however it
 * ends; every group still watched then gets SIGTERM, and SIGKILL after its grace period.
 */
export interface Watchdog {
  /** @param graceSeconds time between SIGTERM and SIGKILL; 0 sends SIGKILL at once */
  watch(groupId: number, graceSeconds?: number): void;
  /** Stops watching a group that has ended: its id may be reused. */
  forget(groupId: number): void;
}

/** Commands are lines: `watch GROUP GRACE` and `forget GROUP`. */
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

/** Starts the shell. It exits with this process and does not keep it alive. */
export function startWatchdog(): Watchdog {
  const shell = spawn('/bin/sh', ['-c', SCRIPT], {
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
    cwd: '/',
    env: { PATH: process.env.PATH ?? '/usr/bin:/bin' },
  });
  const commands = shell.stdin;
  // If there is no shell, or the watchdog was killed, the protection is lost but this process goes on.
  shell.on('error', () => {});
  commands?.on('error', () => {});
  shell.unref();
  (commands as unknown as Socket | null)?.unref();
  return {
    watch: (groupId, graceSeconds = 2) => commands?.write(`watch ${groupId} ${Math.ceil(graceSeconds)}\n`),
    forget: (groupId) => commands?.write(`forget ${groupId} 0\n`),
  };
}
