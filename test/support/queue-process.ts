import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { QueueOptions } from '../../src/host/node/serve.ts';
import type { Logger } from '../../src/process/index.ts';
import { UserError } from '../../src/process/index.ts';

/** A queue in a process of its own, made of the sources, which a test may kill. */
export interface QueueProcess {
  /** The address of the queue, without a trailing slash. */
  readonly url: string;
  readonly port: number;
  readonly pid: number;
  /** Resolves when the process has ended. */
  readonly exited: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
  /** Replaces the tokens, as `RunningQueue.setTokens` does. */
  setTokens(text: string): Promise<void>;
  /** Collects the garbage of the process, and says how many bytes are left: the heap and the buffers outside of it. */
  heldBytes(): Promise<number>;
  /** In order, as on a signal. */
  stop(): Promise<void>;
  /** Kills the process without a word, as a crash does. */
  kill(): void;
}

/** The options of the process; its log comes over IPC. */
export type QueueProcessOptions = Omit<QueueOptions, 'logger'>;

export type FromQueue =
  | { type: 'up'; url: string; port: number }
  | { type: 'refused'; message: string; exitCode: number | null }
  | { type: 'log'; level: 'debug' | 'info' | 'warn' | 'error'; said: [unknown, string?] }
  | { type: 'done'; call: number; error: string | null }
  | { type: 'held'; bytes: number };

export type ToQueue = { type: 'stop' } | { type: 'tokens'; call: number; text: string } | { type: 'collect' };

const PROGRAM = fileURLToPath(new URL('serve-queue.ts', import.meta.url));

/**
 * Starts it, and waits until it listens.
 * @param env added to the environment of the process
 * @throws UserError as `startQueue`
 */
export async function startQueueProcess(
  options: QueueProcessOptions & { logger?: Logger; env?: NodeJS.ProcessEnv },
): Promise<QueueProcess> {
  const { logger, env, ...given } = options;
  const child = fork(PROGRAM, [JSON.stringify(given)], {
    // The sources are made JavaScript once for all processes.
    env: { ...process.env, NODE_COMPILE_CACHE: join(tmpdir(), 'worker-vllm-compiled'), ...env },
    execArgv: [],
  });
  const exited = exitOf(child);
  const calls = new Map<number, (error: string | null) => void>();
  const up = await new Promise<{ url: string; port: number }>((resolve, reject) => {
    child.on('message', (message: FromQueue) => {
      if (message.type === 'log') logger?.[message.level](...(message.said as [object, string]));
      else if (message.type === 'up') resolve(message);
      else if (message.type === 'done') calls.get(message.call)?.(message.error);
      else if (message.type === 'refused') reject(refusal(message));
    });
    void exited.then((exit) => reject(new Error(`the queue ended with ${JSON.stringify(exit)}`)));
  });
  const held = () =>
    new Promise<number>((resolve) => {
      const heard = (message: FromQueue) => {
        if (message.type !== 'held') return;
        child.off('message', heard);
        resolve(message.bytes);
      };
      child.on('message', heard);
    });
  const tell = (message: ToQueue) => child.send(message, () => {});
  return {
    url: up.url,
    port: up.port,
    pid: child.pid!,
    exited,
    setTokens: (text) =>
      new Promise((resolve, reject) => {
        const call = calls.size;
        calls.set(call, (error) => (error === null ? resolve() : reject(new Error(error))));
        tell({ type: 'tokens', call, text });
      }),
    heldBytes: () => {
      const answer = held();
      tell({ type: 'collect' });
      return answer;
    },
    stop: async () => {
      if (child.connected) tell({ type: 'stop' });
      await exited;
    },
    kill: () => void child.kill('SIGKILL'),
  };
}

function refusal({ message, exitCode }: FromQueue & { type: 'refused' }): Error {
  return exitCode === null ? new Error(message) : new UserError(message, exitCode as UserError['exitCode']);
}

async function exitOf(child: ChildProcess): Promise<{ code: number | null; signal: NodeJS.Signals | null }> {
  const [code, signal] = (await once(child, 'exit')) as [number | null, NodeJS.Signals | null];
  return { code, signal };
}
