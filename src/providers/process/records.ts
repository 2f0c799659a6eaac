import { execFileSync } from 'node:child_process';
import {
  closeSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import * as z from 'zod';

/** The record of one worker process, by which the process is found again after the launcher was killed. */
const ProcessRecord = z.object({
  name: z.string(),
  /** The random token in the environment of the process. */
  token: z.string(),
  /**
   * The process; null until it has been started. If the launcher was killed at that moment, the process may run anyway.
   */
  process: z.object({ pid: z.number().int(), start_time: z.string() }).nullable(),
  gpus: z.array(z.number().int()),
  /** The port on which the worker's engine listens. */
  port: z.number().int(),
  /** When the record was made, epoch ms. */
  created_at: z.number(),
  /** The time between SIGTERM and SIGKILL, ms. */
  grace_ms: z.number(),
  /** When SIGTERM was sent, epoch ms; null: not yet. A second SIGTERM would end the process at once. */
  asked_to_end_at: z.number().nullable(),
});
export type ProcessRecord = z.infer<typeof ProcessRecord>;

/** At most this many lines of the end of a log are shown. */
const SHOWN_LINES = 15;
const SHOWN_BYTES = 8192;
/** The logs of this many ended workers are stored. */
const KEPT_LOGS = 50;

/** The folder of all records: `NAME.json`, beside it `NAME.log` and, once the process has ended, `NAME.exit`. */
export class ProcessRecords {
  readonly #folder: string;

  /** @throws Error when the folder cannot be made */
  constructor(folder: string) {
    this.#folder = folder;
    mkdirSync(folder, { recursive: true, mode: 0o700 });
  }

  /**
   * Returns the records that can be read; a file that a crash cut short belongs to a process that was never started.
   */
  all(): ProcessRecord[] {
    return this.#names('.json').flatMap((name) => this.find(name) ?? []);
  }

  find(name: string): ProcessRecord | null {
    try {
      return ProcessRecord.parse(JSON.parse(readFileSync(this.#path(name, 'json'), 'utf8')));
    } catch {
      return null;
    }
  }

  put(record: ProcessRecord): void {
    const path = this.#path(record.name, 'json');
    writeFileSync(`${path}.new`, JSON.stringify(record), { mode: 0o600 });
    renameSync(`${path}.new`, path);
  }

  /** Removes a record. Its log stays, among the logs of the newest others. */
  remove(name: string): void {
    rmSync(this.#path(name, 'json'), { force: true });
    rmSync(this.#path(name, 'exit'), { force: true });
    const recorded = new Set(this.#names('.json'));
    const over = this.#names('.log').filter((other) => !recorded.has(other));
    const writtenAt = (other: string) =>
      statSync(this.#path(other, 'log'), { throwIfNoEntry: false })?.mtimeMs ?? 0;
    const oldestLast = over.map((other) => ({ other, at: writtenAt(other) })).sort((a, b) => b.at - a.at);
    for (const { other } of oldestLast.slice(KEPT_LOGS)) rmSync(this.#path(other, 'log'), { force: true });
  }

  /** Returns the stored exit code of a process, and when it ended; null: none is stored. */
  exitOf(name: string): { code: number; at: number } | null {
    try {
      const path = this.#path(name, 'exit');
      const code = Number.parseInt(readFileSync(path, 'utf8'), 10);
      return Number.isNaN(code) ? null : { code, at: Math.round(statSync(path).mtimeMs) };
    } catch {
      return null;
    }
  }

  exitPath(name: string): string {
    return this.#path(name, 'exit');
  }

  logPath(name: string): string {
    return this.#path(name, 'log');
  }

  /** Returns the last lines of a log, or null if it has none. */
  endOfLog(name: string): string | null {
    let file: number | undefined;
    try {
      file = openSync(this.#path(name, 'log'), 'r');
      const { size } = statSync(this.#path(name, 'log'));
      const bytes = Buffer.alloc(Math.min(size, SHOWN_BYTES));
      readSync(file, bytes, 0, bytes.length, size - bytes.length);
      const lines = bytes.toString('utf8').trimEnd().split('\n');
      return lines.slice(-SHOWN_LINES).join('\n') || null;
    } catch {
      return null;
    } finally {
      if (file !== undefined) closeSync(file);
    }
  }

  #names(ending: string): string[] {
    return readdirSync(this.#folder)
      .filter((file) => file.endsWith(ending))
      .map((file) => file.slice(0, -ending.length));
  }

  #path(name: string, ending: string): string {
    return join(this.#folder, `${name}.${ending}`);
  }
}

/**
 * Process ids are used again, so a process is identified by its id, its start time, and a random token in its
 * environment, all three; where there is no /proc, by the first two.
 */

/** The variable that holds the token. */
export const TOKEN_VARIABLE = 'WORKER_VLLM_PROCESS_TOKEN';

const HAS_PROC = process.platform === 'linux';

/** Returns when a process started, in a form that only compares with itself; null: it does not run. */
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
 * Returns the leader of the process group that was started with a token; null: there is none, or there is no /proc.
 * Groups of its children have the token too, but started later.
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
  // The name is in brackets and may hold any characters. The fields from the third on follow it.
  const [, rest = ''] = /^.*\) (.*)$/s.exec(readFileSync(`/proc/${pid}/stat`, 'utf8')) ?? [];
  const fields = rest.split(' ');
  return { state: fields[0]!, group: Number(fields[5 - 3]), startTime: Number(fields[22 - 3]) };
}
