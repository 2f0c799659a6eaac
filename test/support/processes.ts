import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { childrenOf, signal } from '../soak/proc.ts';

/** A process that a test started, in a process group of its own. */
export interface Child {
  readonly pid: number;
  readonly name: string;
  /** Everything written to stdout and stderr so far, in order of arrival. */
  output(): string;
  /**
   * The first line of the output, past or future, that matches.
   * @throws Error with the whole output, when the process ends first or the time is over (60 s by default)
   */
  waitForLine(pattern: RegExp, timeoutMs?: number): Promise<string>;
  /** Settles when the process has ended and its output is read to the end. Never rejects. */
  readonly exited: Promise<Exit>;
  /** Sends a signal to the process alone. */
  kill(signal: NodeJS.Signals): void;
  /** SIGTERM to the process, SIGKILL to its group after 10 s; whatever is left of the group is killed. */
  stop(): Promise<void>;
}

interface Exit {
  code: number | null;
  signal: NodeJS.Signals | null;
}

const STOP_LIMIT_MS = 10_000;

const running = new Set<Child>();

/**
 * Starts a process, detached in a group of its own, with its output captured.
 * `env` replaces the environment whole: pass `{...process.env, NAME: 'value'}` to add to it.
 */
export function startProcess(
  command: string,
  args: string[],
  options: { env?: NodeJS.ProcessEnv; cwd?: string; name?: string } = {},
): Child {
  const name = options.name ?? `${command} ${args.join(' ')}`;
  const child = spawn(command, args, {
    cwd: options.cwd,
    env: options.env ?? process.env,
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let text = '';
  let wake = Promise.withResolvers<void>();
  const changed = () => {
    wake.resolve();
    wake = Promise.withResolvers<void>();
  };
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8');
    stream.on('data', (part: string) => {
      text += part;
      changed();
    });
  }

  let ended = false;
  const exited = new Promise<Exit>((resolve) => {
    const end = (exit: Exit) => {
      ended = true;
      running.delete(handle);
      changed();
      resolve(exit);
    };
    child.once('error', (error) => {
      text += `${error.message}\n`;
      end({ code: null, signal: null });
    });
    // `close` waits for the output's end; a grandchild that holds it open must not hide the exit for long. The second is
    // counted in two halves: after a standstill timers are over before the output is read.
    const half = () => sleep(500, undefined, { ref: false });
    child.once('exit', (code, signal) => {
      void Promise.race([once(child, 'close'), half().then(half)]).then(() => end({ code, signal }));
    });
  });

  const handle: Child = {
    pid: child.pid ?? -1,
    name,
    output: () => text,
    exited,
    kill: (signal) => void child.kill(signal),
    stop: async () => {
      if (!ended) {
        child.kill('SIGTERM');
        await Promise.race([exited, sleep(STOP_LIMIT_MS, undefined, { ref: false })]);
      }
      killGroup(child.pid);
      await exited;
    },
    waitForLine: async (pattern, timeoutMs = 60_000) => {
      const matcher = new RegExp(pattern.source, pattern.flags.replace(/[gy]/g, ''));
      const deadline = performance.now() + timeoutMs;
      for (;;) {
        const line = text.split('\n').find((candidate) => matcher.test(candidate));
        if (line !== undefined) return line;
        const left = deadline - performance.now();
        if (ended || left <= 0) {
          const reason = ended ? 'it ended' : `${timeoutMs} ms passed`;
          throw new Error(`${name}: no line like ${pattern} before ${reason}. Its output:\n${text}`);
        }
        const timer = new AbortController();
        await Promise.race([wake.promise, sleep(left, undefined, { signal: timer.signal }).catch(() => {})]);
        timer.abort();
      }
    },
  };
  running.add(handle);
  return handle;
}

/** Stops every process that this test file started and that still runs: for `afterEach` or `afterAll`. */
export async function stopAllProcesses(): Promise<void> {
  await Promise.all([...running].map((child) => child.stop()));
}

/** Names of the processes started here that still run; empty when a test has cleaned up after itself. */
export function runningProcesses(): string[] {
  return [...running].map((child) => `${child.name} (pid ${child.pid})`);
}

/** True while any process of the group is left, unreaped ones included. */
export function groupLives(pid: number): boolean {
  try {
    process.kill(-pid, 0);
    return true;
  } catch {
    return false;
  }
}

/**
 * Kills a process and all that it started at one moment, as the end of a machine does: none of them runs on for long
 * enough to say that another one has died.
 */
export function killTree(pid: number): void {
  const tree = [pid];
  for (const one of tree) {
    signal(one, 'SIGSTOP');
    tree.push(...childrenOf(one));
  }
  for (const one of tree) signal(one, 'SIGKILL');
}

/** Kills the group of a process started with `detached: true`. @param pid undefined: it could not be started */
export function killGroup(pid: number | undefined): void {
  if (pid !== undefined) signal(-pid, 'SIGKILL');
}
