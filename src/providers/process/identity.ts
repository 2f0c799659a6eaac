import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';

/**
 * Process ids are used again, so a process is identified by its id, its start time, and a random token in its
 * environment, all three; where there is no /proc, by the first two.
 */

/** The variable that holds the token. */
export const TOKEN_VARIABLE = 'WORKER_VLLM_PROCESS_TOKEN';

const HAS_PROC = process.platform === 'linux';

/** Returns when a process started, in a form that only compares with itself; null where it does not run. */
export function startTimeOf(pid: number): string | null {
  try {
    if (!HAS_PROC)
      return (
        execFileSync('ps', ['-o', 'lstart=', '-p', String(pid)])
          .toString()
          .trim() || null
      );
    const { state, startTime } = statOf(pid);
    return state === 'Z' || state === 'X' ? null : String(startTime);
  } catch {
    return null;
  }
}

/** Returns whether this is the process that was started with the token, at that time. */
export function isProcess(pid: number, startTime: string, token: string): boolean {
  return startTimeOf(pid) === startTime && (!HAS_PROC || hasToken(pid, token));
}

/**
 * Returns the leader of the process group that was started with a token; null where there is none, or where there is
 * no /proc. Groups of its children have the token too, but started later.
 */
export function leaderWithToken(token: string): number | null {
  if (!HAS_PROC) return null;
  const pids = readdirSync('/proc').flatMap((name) => (/^\d+$/.test(name) ? Number(name) : []));
  const leaders = pids.filter((pid) => hasToken(pid, token)).flatMap((pid) => leaderStart(pid) ?? []);
  return leaders.sort((a, b) => a.startTime - b.startTime || a.pid - b.pid)[0]?.pid ?? null;
}

function leaderStart(pid: number): { pid: number; startTime: number } | null {
  try {
    const { group, startTime } = statOf(pid);
    return group === pid ? { pid, startTime } : null;
  } catch {
    return null;
  }
}

function hasToken(pid: number, token: string): boolean {
  try {
    return readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0').includes(`${TOKEN_VARIABLE}=${token}`);
  } catch {
    return false;
  }
}

/**
 * Reads proc_pid_stat(5). `startTime` is field 22, in clock ticks since boot. @throws Error when the process does not
 * exist
 */
function statOf(pid: number): { state: string; group: number; startTime: number } {
  // The name stands in brackets and may hold anything. The fields from the third on follow it.
  const [, rest = ''] = /^.*\) (.*)$/s.exec(readFileSync(`/proc/${pid}/stat`, 'utf8')) ?? [];
  const fields = rest.split(' ');
  return { state: fields[0]!, group: Number(fields[5 - 3]), startTime: Number(fields[22 - 3]) };
}
