import { createHash } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { connect, createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join, relative, resolve } from 'node:path';
import { UserError } from '../process/index.ts';
import { stateFolderError } from './state-folder.ts';

/** Unix socket paths end at 104 bytes on macOS and 108 on Linux. */
const SOCKET_PATH_BYTES = 100;

/**
 * Makes sure that one process uses a state folder at a time. The lock is a Unix socket that this process
 * listens on: unlike a file with a process id it cannot outlive its owner.
 * @returns a function that gives the folder back
 * @throws UserError when another process uses the folder
 */
export async function lockState(stateDir: string): Promise<() => Promise<void>> {
  const path = socketPath(stateDir);
  const server = await lockAt(path, stateDir);
  if (!server) {
    throw new UserError(
      `The state folder ${stateDir} is in use by another worker-vllm. ` +
        'Stop that one, or choose another folder (WORKER_VLLM_STATE or --state).',
    );
  }
  server.unref();
  return () => new Promise((done) => server.close(() => done()));
}

/** Undefined when another process has it. */
async function lockAt(path: string, stateDir: string): Promise<Server | undefined> {
  try {
    return (await listen(path)) ?? ((await answers(path)) ? undefined : await takeOver(path));
  } catch (error) {
    throw stateFolderError('lock the state folder', stateDir, error);
  }
}

function socketPath(stateDir: string): string {
  const absolute = join(resolve(stateDir), 'lock.sock');
  const fromHere = relative(process.cwd(), absolute);
  const shortest = fromHere.length < absolute.length ? fromHere : absolute;
  if (Buffer.byteLength(shortest) <= SOCKET_PATH_BYTES) return shortest;
  const digest = createHash('sha256').update(absolute).digest('hex').slice(0, 24);
  return join(tmpdir(), `worker-vllm-${digest}.sock`);
}

/** Undefined when the path exists already. */
function listen(path: string): Promise<Server | undefined> {
  return new Promise((done, fail) => {
    const server = createServer((socket) => socket.destroy());
    server.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EADDRINUSE') done(undefined);
      else fail(error);
    });
    server.listen(path, () => done(server));
  });
}

function answers(path: string): Promise<boolean> {
  return new Promise((done) => {
    const socket = connect(path);
    socket.once('connect', () => done(true)).once('error', () => done(false));
    socket.once('close', () => socket.destroy());
  });
}

/** The owner of this socket was killed: its file remains, nobody listens. */
async function takeOver(path: string): Promise<Server | undefined> {
  await rm(path, { force: true });
  return listen(path);
}
