import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { UserError } from '../../src/process/index.ts';
import { SetupSteps } from '../setup-steps.ts';

/** A Docker daemon for tests, spoken to by the command `docker` of this process's environment. */
export interface TestDocker {
  /** Build argument of both Dockerfiles: a base that this daemon has or can have. */
  nodeVersion: string;
  /** Ends the daemon where it is ours. */
  release(): void;
}

const NODE_VERSION = '24';
const STAND_IN = 'stand-in';
/** For the images of Node, which have some 80 MB, ms. */
const PULL_MS = 120_000;

const setup = new SetupSteps('docker');

/**
 * The daemon that is there, as `docker info` finds it, with real bases. Where there is none, on Debian as root, one of
 * our own; it ends with this process at the latest. Where no registry answers, bases are stand-ins.
 * @throws UserError where neither is possible
 */
export function ensureDocker(): TestDocker {
  const isThere = works('docker', 'info');
  const release = isThere ? () => {} : startDaemon();
  try {
    return { nodeVersion: nodeVersion(), release };
  } catch (error) {
    release();
    throw error;
  }
}

/** Ours, which `docker` in this process's environment means from now on. */
function startDaemon(): () => void {
  if (process.getuid?.() !== 0 || !existsSync('/etc/debian_version')) {
    throw new UserError(
      'The tests of Docker need a daemon that "docker info" reaches, or Debian and root for one of their own.',
    );
  }
  const folder = mkdtempSync(join(tmpdir(), 'wv-docker-'));
  const script = join(import.meta.dirname, 'daemon.sh');
  const down = () => void spawnSync(script, ['down', folder], { stdio: 'inherit' });
  // Also where this process is killed.
  spawn(
    'sh',
    [
      '-c',
      'while [ -d "/proc/$0" ]; do sleep 1; done; exec "$@"',
      String(process.pid),
      script,
      'down',
      folder,
    ],
    {
      detached: true,
      stdio: 'ignore',
    },
  ).unref();
  setup.say(`starting a daemon of our own in ${folder}`);
  try {
    const up = execFileSync(script, ['up', folder], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    process.env.DOCKER_HOST = up.trim();
    // The first `docker` on the PATH may be a newer one that cannot build.
    mkdirSync(join(folder, 'bin'));
    symlinkSync('/usr/bin/docker', join(folder, 'bin/docker'));
    process.env.PATH = `${join(folder, 'bin')}:${process.env.PATH}`;
    process.env.TEST_DOCKER_FOLDER = folder;
    return down;
  } catch (error) {
    down();
    throw error;
  }
}

function nodeVersion(): string {
  const image = `node:${NODE_VERSION}-bookworm-slim`;
  if (works('docker', 'image', 'inspect', image)) return NODE_VERSION;
  if (works('docker', 'image', 'inspect', image.replace(NODE_VERSION, STAND_IN))) return STAND_IN;
  setup.say(`pulling ${image}`);
  if (works('docker', 'pull', '--quiet', image)) return NODE_VERSION;
  setup.say('no registry answers: making stand-ins of the bases');
  const scratch = mkdtempSync(join(tmpdir(), 'wv-docker-bases-'));
  execFileSync(join(import.meta.dirname, 'bases.sh'), [scratch], { stdio: ['ignore', 'inherit', 'inherit'] });
  return STAND_IN;
}

function works(command: string, ...args: string[]): boolean {
  return spawnSync(command, args, { stdio: 'ignore', timeout: PULL_MS }).status === 0;
}
