import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { access, constants, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { guardGroup } from '../process/child.ts';
import { EXIT, type Logger, UserError } from '../process/index.ts';
import { dialableHost } from '../process/network.ts';
import { assertUsable } from '../state/check.ts';
import { fileKeySecret } from '../state/file-key-secret.ts';
import { makeFolder, stateFolderError } from '../state/folder.ts';
import { lockState } from '../state/lock.ts';
import { bundle, MODULES } from './bundle.ts';
import { trustedCertificates } from './certificates.ts';
import { workerdConfig } from './config.ts';
import { descriptorLimit, warnOfLowLimit, watchDescriptors } from './descriptors.ts';
import { listening, watchOutput } from './output.ts';

/** How long workerd gets between SIGTERM and SIGKILL, ms. */
const STOP_MS = 2000;

/** The configuration holds the bundle and the page, 1 MB together. */
const MOST_CONFIG_BYTES = 64 * 1024 * 1024;

export interface WorkerdOptions {
  host: string;
  /** 0 lets the system choose a free one. */
  port: number;
  /** Folder of the databases, the bundle and the configuration; created when missing. */
  stateDir: string;
  /** Text variables of the gateway's environment (src/gateway/env.ts). */
  bindings: Record<string, string>;
  /** Gets what workerd and the gateway print. */
  logger?: Logger;
}

export interface WorkerdExit {
  code: number | null;
  signal: NodeJS.Signals | null;
  /** It had no file descriptor left for another connection. */
  outOfDescriptors: boolean;
}

export interface RunningWorkerd {
  /** Without a trailing slash, reachable from this machine. */
  url: string;
  port: number;
  pid: number;
  /** Resolves when the process has ended and the state folder is free again. */
  exited: Promise<WorkerdExit>;
  /** Other tokens are asked for from now on. @param text as the binding TOKENS @throws where the process does not take them */
  setTokens(text: string): Promise<void>;
  /** Tells every worker to reconnect, then ends the process. */
  stop(): Promise<void>;
  /** Ends the process at once, as a crash would. */
  kill(): void;
}

/**
 * Bundles the gateway and serves it with workerd until stopped. The process runs in its own group and
 * does not outlive this one.
 * @throws UserError when the port or the state folder is taken, the state cannot be used, or the address is not of
 *   this machine
 */
export async function startWorkerd(options: WorkerdOptions): Promise<RunningWorkerd> {
  const folders = {
    program: join(resolve(options.stateDir), 'workerd'),
    data: join(resolve(options.stateDir), 'data'),
  };
  await makeFolders(options.stateDir, folders.program, folders.data);
  // First of all, so that no other version's state is touched.
  await assertUsable(options.stateDir);
  const lock = await lockState(options.stateDir);
  const secret = randomBytes(32).toString('hex');
  let child: ChildProcess;
  try {
    child = await spawnWorkerd(options, folders, secret);
  } catch (error) {
    lock.release();
    throw error;
  }

  if (child.pid) lock.note(child.pid);
  // Acknowledged jobs survive SIGKILL, so an orphan needs no grace.
  const group = guardGroup(child, 0);
  const limit = descriptorLimit();
  const output = watchOutput(child, options.logger);
  const stopWatching = watchDescriptors(child.pid ?? 0, limit, options.logger);
  const exited = exitOf(child).then((exit): WorkerdExit => {
    stopWatching();
    group.release();
    lock.release();
    return { ...exit, outOfDescriptors: output.isOutOfDescriptors() };
  });
  const port = await Promise.race([listening(child), failure(exited, output.early, options)]);
  output.ready();
  warnOfLowLimit(limit, options.logger);
  const url = `http://${dialableHost(options.host)}:${port}`;

  let stopping: Promise<void> | undefined;
  return {
    url,
    port,
    pid: child.pid as number,
    exited,
    setTokens: async (text) => {
      const response = await tell(url, 'tokens', secret, text);
      if (!response.ok) throw new Error(`workerd answered ${response.status}`);
    },
    stop: () => (stopping ??= stop(child, exited, url, secret)),
    kill: () => void child.kill('SIGKILL'),
  };
}

/** Writes bundle and configuration, and starts the program on them. */
async function spawnWorkerd(
  { host, port, stateDir, bindings }: WorkerdOptions,
  folders: { program: string; data: string },
  secret: string,
): Promise<ChildProcess> {
  const program = binary();
  const variables: Record<string, string> = {
    FILE_KEY_SECRET: await fileKeySecret(stateDir),
    ...bindings,
    INTERNAL_SECRET: secret,
  };
  await bundle(folders.program);
  const address = `${host.includes(':') ? `[${host}]` : host}:${port}`;
  const source = join(folders.program, 'config.capnp');
  const names = Object.keys(variables);
  await writeFile(
    source,
    workerdConfig({
      address,
      dataDir: folders.data,
      modules: MODULES,
      variables: names,
      trustedCertificates: trustedCertificates(),
    }),
  );
  const config = join(folders.program, 'config.bin');
  await writeFile(config, await compiled(program, source));
  return spawn(program, ['serve', '--binary', config, '--control-fd=3'], {
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
    env: variables,
  });
}

/**
 * The configuration with all that it refers to, as workerd reads it without parsing: a process that has parsed text
 * keeps 1.4 MB that it did so with. Variables stay names.
 */
async function compiled(program: string, source: string): Promise<Buffer> {
  const options = { encoding: 'buffer', maxBuffer: MOST_CONFIG_BYTES, env: {} } as const;
  try {
    const { stdout } = await promisify(execFile)(program, ['compile', '--config-only', source], options);
    return stdout;
  } catch (error) {
    const { message, stderr } = error as Error & { stderr?: Buffer };
    throw new Error(`workerd does not take the configuration ${source}: ${stderr?.toString() || message}`);
  }
}

/** Asks the gateway for what only this process may (gateway/routes/sockets.ts). */
function tell(
  url: string,
  what: 'close-sockets' | 'tokens',
  secret: string,
  body?: string,
): Promise<Response> {
  return fetch(`${url}/internal/${what}`, {
    method: 'POST',
    headers: { 'x-internal-secret': secret, connection: 'close' },
    signal: AbortSignal.timeout(STOP_MS),
    ...(body !== undefined && { body }),
  });
}

/** workerd does not end on SIGTERM while a socket is open, so the sockets go first. */
async function stop(
  child: ChildProcess,
  exited: Promise<unknown>,
  url: string,
  secret: string,
): Promise<void> {
  if (child.exitCode === null && child.signalCode === null) {
    await tell(url, 'close-sockets', secret).catch(() => {});
    child.kill('SIGTERM');
  }
  const force = setTimeout(() => child.kill('SIGKILL'), STOP_MS);
  await exited;
  clearTimeout(force);
}

async function makeFolders(stateDir: string, ...folders: string[]): Promise<void> {
  try {
    for (const folder of folders) {
      await makeFolder(folder);
      // One that was there may be another user's.
      await access(folder, constants.W_OK);
    }
  } catch (error) {
    throw stateFolderError('write to the state folder', stateDir, error);
  }
}

/** The program itself: its npm wrapper would be one more process to signal. */
function binary(): string {
  try {
    return createRequire(import.meta.url)('workerd').default as string;
  } catch (error) {
    throw new UserError(
      `workerd cannot run here (${(error as Error).message.split('\n')[0]}). ` +
        'Install with "npm ci" on Linux or macOS, x64 or arm64, without leaving out optional packages; ' +
        "in a container use the queue's image (deploy/Dockerfile.queue), the worker's has no workerd.",
    );
  }
}

/** `close` rather than `exit`: what it printed has been read by then. */
function exitOf(child: ChildProcess): Promise<Omit<WorkerdExit, 'outOfDescriptors'>> {
  return new Promise((done) => {
    child.once('close', (code, signal) => done({ code, signal }));
    child.once('error', () => done({ code: null, signal: null }));
  });
}

async function failure(
  exited: Promise<WorkerdExit>,
  printed: string[],
  options: WorkerdOptions,
): Promise<never> {
  const exit = await exited;
  const said = printed.join('\n');
  const place = `${options.host}:${options.port}`;
  if (/Address already in use/i.test(said)) {
    throw new UserError(
      `Port ${options.port} on ${options.host} is in use. ` +
        'Stop what listens there, or choose another port (QUEUE_PORT or --port).',
      EXIT.portInUse,
    );
  }
  const bind = /bind\(\): (.*?)(?: \(os error \d+\))?$/m.exec(said)?.[1];
  if (bind) throw new UserError(`Cannot listen on ${place}: ${bind}. Choose another --host or --port.`);
  if (/DNS lookup failed/.test(said)) {
    throw new UserError(
      `Cannot listen on ${place}: no address of this name is known here. Choose another --host (QUEUE_HOST).`,
    );
  }
  throw new Error(
    `workerd ended before it was ready (code ${exit.code ?? exit.signal}): ${said || 'it said nothing'}`,
  );
}
