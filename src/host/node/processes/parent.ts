import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { createInterface } from 'node:readline';
import { exitCodeOf, guardGroup } from '../../../process/child.ts';
import { systemClock } from '../../../process/clock.ts';
import { type LogDestination, type Logger, localDestination, UserError } from '../../../process/index.ts';
import { dialableHost } from '../../../process/network.ts';
import { programArguments } from '../../../process/package.ts';
import { makeToken } from '../../../state/tokens.ts';
import { listenError } from '../listen-error.ts';
import type { QueueAtWork } from '../serve.ts';
import type { QueueSettings } from '../settings.ts';
import { KeptProcess, type StartedProcess } from './kept-process.ts';
import type { ChildStart, FromChild, ToChild } from './messages.ts';

/** Gateways, and after them the owner, have this many ms to end. */
const STOP_MS = 2000;

/** If this process is killed, its children have this many seconds to end before they are killed too. */
const ORPHAN_SECONDS = 3;

/** The address at which the owner listens. */
const INSIDE = '127.0.0.1';

/** The ports among which that of the owner is chosen; the system's own choices begin where `most` is unless it says so. */
const INSIDE_PORTS = { least: 20_000, most: 32_768 };

/**
 * Serves a queue by several processes: the owner, which holds the state, and gateways that share the port and pass the
 * answers on. This process only keeps them running.
 * @param lines where the log lines of all of them go, as JSON; left out: the standard output
 * @param unwanted ends the start, which fails then
 * @throws UserError when the owner or a gateway cannot start
 */
export async function startProcesses(
  settings: QueueSettings,
  logger: Logger,
  { lines = localDestination(process.env), unwanted }: { lines?: LogDestination; unwanted?: AbortSignal },
): Promise<QueueAtWork> {
  const { host, gateways } = settings;
  if (process.platform !== 'linux') {
    throw new UserError(
      `Several gateways share a port on Linux only, not on ${process.platform}: leave QUEUE_GATEWAYS (--gateways) out, or start "worker-vllm gateway" processes, each with a port of its own.`,
    );
  }
  const port = await freePortAt(host, settings.port);
  const inside = await insidePort();
  const queue = `http://${INSIDE}:${inside}`;
  const { token, entry } = makeToken('gateways', ['gateway']);
  const failed = Promise.withResolvers<Error>();
  const keep = (name: string, start: ChildStart) =>
    new KeptProcess(name, {
      start: (heard) => startChild(name, start, { level: logger.level, lines }, heard),
      clock: systemClock,
      log: logger,
      failed: failed.resolve,
    });
  const owner = keep('owner', {
    role: 'owner',
    settings: { ...settings, host: INSIDE, port: inside },
    entry,
  });
  const gatewayStart: ChildStart = { role: 'gateway', host, port, queue, token };
  const all = Array.from({ length: gateways }, (_, index) => keep(`gateway-${index + 1}`, gatewayStart));
  const stopAll = async () => {
    await Promise.all(all.map((gateway) => gateway.stop(STOP_MS)));
    await owner.stop(STOP_MS);
  };
  try {
    await Promise.race([Promise.all([owner, ...all].map((one) => one.start())), whenAborted(unwanted)]);
  } catch (error) {
    await stopAll();
    throw error;
  }
  let stopping: Promise<void> | undefined;
  return {
    url: `http://${dialableHost(host)}:${port}`,
    port,
    failed: failed.promise,
    stop: () => (stopping ??= stopAll()),
  };
}

/** Rejects when a signal is aborted. */
function whenAborted(signal: AbortSignal | undefined): Promise<never> {
  return new Promise((_, reject) =>
    signal?.addEventListener('abort', () => reject(new Error('the start was ended before the queue was up'))),
  );
}

/** Starts a child in a process group of its own: only this process tells it when to end. */
function startChild(
  name: string,
  start: ChildStart,
  { level, lines }: { level: string; lines: LogDestination },
  heard: (message: FromChild) => void,
): StartedProcess {
  // The name is for those who list the processes of the machine.
  const child = spawn(process.execPath, [...programArguments('queue-process'), name], {
    env: { ...process.env, LOG_LEVEL: level, LOG_FORMAT: 'json' },
    detached: true,
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
  });
  const group = guardGroup(child, ORPHAN_SECONDS);
  const tell = (message: ToChild) => {
    if (child.connected) child.send(message, () => {});
  };
  child.on('message', heard);
  createInterface({ input: child.stdout! }).on('line', (line) => lines.write(`${line}\n`));
  const ended = exitCodeOf(child).then((code) => {
    group.release();
    return child.signalCode === null ? `with code ${code}` : `by ${child.signalCode}`;
  });
  tell({ type: 'start', name, start });
  return { pid: child.pid, tell, kill: () => group.signal('SIGKILL'), ended };
}

/**
 * Returns the port, or a free one for 0. Listening at it for a moment, alone, also finds another queue whose gateways
 * share it: they would share it with these too.
 */
async function freePortAt(host: string, port: number): Promise<number> {
  try {
    return await listenedPort(host, port);
  } catch (error) {
    throw listenError(error, { host, port }, 'QUEUE');
  }
}

/**
 * Chooses the port of the owner. It is none of those that the system gives to connections that dial out: one of them
 * could take it while the owner is away.
 */
async function insidePort(): Promise<number> {
  const { least } = INSIDE_PORTS;
  const count = leastDiallingPort() - least;
  for (let tries = 0; ; tries++) {
    const port = least + Math.floor(Math.random() * count);
    try {
      return await listenedPort(INSIDE, port);
    } catch (error) {
      if (tries >= 100) throw error;
    }
  }
}

function leastDiallingPort(): number {
  const { least, most } = INSIDE_PORTS;
  try {
    const first = Number.parseInt(readFileSync('/proc/sys/net/ipv4/ip_local_port_range', 'utf8'), 10);
    return first > least + 100 ? first : most;
  } catch {
    return most;
  }
}

/** Listens for a moment, and returns the port. @throws the system's error if that is not possible */
function listenedPort(host: string, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer().once('error', reject);
    server.listen({ host, port, exclusive: true }, () => {
      const { port: listened } = server.address() as { port: number };
      server.close(() => resolve(listened));
    });
  });
}
