import { execFile, execFileSync } from 'node:child_process';
import { promisify } from 'node:util';
import { until } from '../support/poll.ts';

const run = promisify(execFile);

/** What this file has made, to be removed again. */
const made = { containers: new Set<string>(), networks: new Set<string>(), volumes: new Set<string>() };

/** What `docker …` prints. @throws Error with what it complained of */
export async function docker(...args: string[]): Promise<string> {
  const { stdout } = await run('docker', args, { maxBuffer: 64 * 1024 * 1024 });
  return stdout.trim();
}

interface Tried {
  code: number;
  stdout: string;
  stderr: string;
}

/** The same where it may fail. */
export async function tried(...args: string[]): Promise<Tried> {
  try {
    return { code: 0, ...(await run('docker', args)) };
  } catch (error) {
    return error as Tried;
  }
}

let names = 0;
/** A name that nobody else has. */
export function newName(what: string): string {
  return `wvt-${process.pid}-${what}-${++names}`;
}

/** A container that runs in the background. @param args as of `docker run`, the image and what follows included */
export async function start(name: string, ...args: string[]): Promise<string> {
  made.containers.add(name);
  await docker('run', '--detach', '--name', name, ...args);
  return name;
}

export async function newNetwork(): Promise<string> {
  const name = newName('net');
  made.networks.add(name);
  await docker('network', 'create', name);
  return name;
}

export async function newVolume(): Promise<string> {
  const name = newName('volume');
  made.volumes.add(name);
  await docker('volume', 'create', name);
  return name;
}

interface State {
  Status: string;
  ExitCode: number;
  OOMKilled: boolean;
  Health?: { Status: string; Log: { ExitCode: number; Output: string }[] };
}

export async function stateOf(name: string): Promise<State> {
  return JSON.parse(await docker('inspect', '--format', '{{json .State}}', name));
}

/** What the container's own HEALTHCHECK says, run now and not when its interval is over. */
export async function health(name: string): Promise<Tried> {
  const test: string[] = JSON.parse(
    await docker('inspect', '--format', '{{json .Config.Healthcheck.Test}}', name),
  );
  return await tried('exec', name, ...test.slice(1));
}

/** @returns both streams */
export async function logOf(name: string): Promise<string> {
  const { stdout, stderr } = await tried('logs', name);
  return stdout + stderr;
}

/** Where a port of a container is reached from this machine. */
export async function urlOf(name: string, port: number): Promise<string> {
  const address = await docker('port', name, `${port}/tcp`);
  return `http://${address.split('\n')[0]}`;
}

/**
 * @param pattern of a line of either stream
 * @throws Error with its log when it has ended
 */
export async function untilLogged(name: string, pattern: RegExp): Promise<void> {
  const found = await until(
    async () => pattern.test(await logOf(name)) || ((await stateOf(name)).Status === 'exited' && 'ended'),
    `${name} logs ${pattern}`,
    { everyMs: 200 },
  );
  if (found === 'ended') throw new Error(`${name} has ended:\n${await logOf(name)}`);
}

/** For `afterEach` or `afterAll`. */
export function removeAll(): void {
  for (const [command, set] of [
    [['rm', '--force', '--volumes'], made.containers],
    [['network', 'rm'], made.networks],
    [['volume', 'rm', '--force'], made.volumes],
  ] as const) {
    for (const name of set) {
      try {
        execFileSync('docker', [...command, name], { stdio: 'ignore' });
      } catch {
        // It never came to be.
      }
    }
    set.clear();
  }
}
