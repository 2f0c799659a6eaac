import { spawn } from 'node:child_process';
import type { Socket } from 'node:net';

/**
 * Ends process groups whose owner was killed before it could (`kill -9`, out of memory).
 *
 * A small detached shell reads this process's orders from a pipe. The kernel closes the pipe when this
 * process ends, however it ends; whatever is still watched then gets SIGTERM, and SIGKILL after its grace.
 */
export interface Watchdog {
  /** @param graceSeconds time between SIGTERM and SIGKILL; 0 sends SIGKILL at once */
  watch(groupId: number, graceSeconds?: number): void;
  /** The group has ended: its number may be reused by somebody else. */
  forget(groupId: number): void;
}

/** Orders are lines `watch GROUP GRACE` and `forget GROUP`. */
const SCRIPT = `
watched=""
while read -r order group grace; do
  rest=""
  for entry in $watched; do
    [ "\${entry%:*}" = "$group" ] || rest="$rest $entry"
  done
  watched="$rest"
  [ "$order" = watch ] && watched="$watched $group:$grace"
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

/** Starts the shell. It ends by itself with this process and does not keep it alive. */
export function startWatchdog(): Watchdog {
  const shell = spawn('/bin/sh', ['-c', SCRIPT], {
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
    cwd: '/',
    env: { PATH: process.env.PATH ?? '/usr/bin:/bin' },
  });
  const orders = shell.stdin;
  // A missing shell or a killed watchdog costs the protection, never the process it protects.
  shell.on('error', () => {});
  orders?.on('error', () => {});
  shell.unref();
  (orders as unknown as Socket | null)?.unref();
  return {
    watch: (groupId, graceSeconds = 2) => orders?.write(`watch ${groupId} ${Math.ceil(graceSeconds)}\n`),
    forget: (groupId) => orders?.write(`forget ${groupId} 0\n`),
  };
}
