import { type ChildProcess, spawn } from 'node:child_process';
import { createServer } from 'node:net';
import type { EngineCommand } from '../engine/kinds/description.ts';
import { exitCodeOf, guardGroup, type ProcessGroup } from '../process/child.ts';
import { EXIT, UserError } from '../process/index.ts';
import { parseValue } from '../protocol/index.ts';
import { type SupervisorMessage, WorkerMessage } from '../worker/supervisor-channel.ts';

export interface EngineHandlers {
  /** Takes text from either stream as it arrives. */
  onOutput(stream: 'stdout' | 'stderr', text: string): void;
  /** Called when the engine's output has been read to the end. `code` is null after a signal. */
  onExit(code: number | null, startError?: Error): void;
}

/** The supervisor waits this long for output that a surviving child of the engine holds open, ms. */
const OUTPUT_END_MS = 500;
/** If this process is killed, the worker has this long to release its jobs, s; the engine is killed at once. */
const WORKER_ALONE_SECONDS = 5;

/**
 * Starts the engine in its own process group: a Ctrl-C in the terminal does not reach it, and all its children can be
 * signalled together.
 */
export function startEngine(
  command: EngineCommand,
  env: NodeJS.ProcessEnv,
  handlers: EngineHandlers,
): ProcessGroup {
  const child = spawn(command.program, command.args, {
    env: { ...env, ...command.env },
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  for (const stream of ['stdout', 'stderr'] as const) {
    child[stream].setEncoding('utf8');
    child[stream].on('data', (text: string) => handlers.onOutput(stream, text));
  }
  child.once('error', (error) => handlers.onExit(null, error));
  child.once('exit', (code) => {
    const end = () => {
      clearTimeout(timer);
      child.off('close', end);
      child.stdout.destroy();
      child.stderr.destroy();
      handlers.onExit(code);
    };
    const timer = setTimeout(end, OUTPUT_END_MS);
    child.once('close', end);
  });
  return guardGroup(child, 0);
}

export interface WorkerHandlers {
  onMessage(message: WorkerMessage): void;
  /** Called when the worker sent something that does not match the schema. */
  onUnknown(message: unknown, problem: string): void;
  onExit(code: number): void;
}

export interface WorkerProcess {
  /** Signals the whole process group, if it still exists. */
  signal(signal: NodeJS.Signals): void;
  tell(message: SupervisorMessage): void;
}

/** A setting of glibc: with arenas of their own, Node's helper threads hold some 15 MB that are never used again. */
const ONE_ARENA = { MALLOC_ARENA_MAX: '1' };

/** Starts the worker with an IPC channel, in its own process group too: only the supervisor tells it when to end. */
export function startWorker(
  programArguments: readonly string[],
  env: NodeJS.ProcessEnv,
  handlers: WorkerHandlers,
): WorkerProcess {
  const child = spawn(process.execPath, programArguments, {
    env: { ...ONE_ARENA, ...env },
    detached: true,
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  child.on('message', (message) => {
    const parsed = parseValue(WorkerMessage, message);
    if (parsed.ok) handlers.onMessage(parsed.value);
    else handlers.onUnknown(message, parsed.message);
  });
  const group = guardGroup(child, WORKER_ALONE_SECONDS);
  void exitCodeOf(child).then((code) => {
    group.release();
    handlers.onExit(code);
  });
  return {
    signal: group.signal,
    tell: (message) => tell(child, message),
  };
}

/** Checks that the engine can listen on this address. @throws UserError when it cannot */
export async function assertPortFree(host: string, port: number): Promise<void> {
  const server = createServer();
  try {
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen({ host, port, exclusive: true }, resolve);
    });
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === 'EADDRINUSE') {
      throw new UserError(
        `Port ${port} at ${host} is in use: stop what listens there, or set another VLLM_PORT.`,
        EXIT.portInUse,
      );
    }
    throw new UserError(`The engine cannot listen on VLLM_HOST=${host} VLLM_PORT=${port}: ${message}.`);
  } finally {
    if (server.listening) await new Promise((resolve) => server.close(resolve));
  }
}

function tell(child: ChildProcess, message: SupervisorMessage): void {
  // The worker may have exited or closed its channel by now.
  if (child.connected) child.send(message, () => {});
}
