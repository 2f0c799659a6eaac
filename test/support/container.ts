import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readlinkSync,
  symlinkSync,
} from 'node:fs';
import { join } from 'node:path';
import type { StagedImage } from '../../scripts/stage-image.ts';
import { until } from './poll.ts';
import { type Child, startProcess } from './processes.ts';

/**
 * A container without Docker: a staged image over this machine's system folders, in mount and PID namespaces
 * of its own, its root read-only. The network is this machine's.
 */
export interface Container {
  process: Child;
  /** The process that is PID 1 inside, by its number outside. */
  init(): Promise<number>;
  /** SIGTERM to PID 1, as `docker stop` begins, and the exit code of the container. */
  stop(): Promise<number | null>;
  /** Runs a command inside, as `docker exec` would. */
  run(command: string[]): { code: number | null; output: string };
}

const NAMESPACES = ['--mount', '--pid', '--fork', '--kill-child'];
/** What the base of an image would bring. */
const SYSTEM_FOLDERS = ['bin', 'sbin', 'lib', 'lib64', 'usr/bin', 'usr/sbin', 'usr/lib', 'usr/lib64', 'etc'];
const PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

/** Mounts everything, then becomes the command. Arguments: root, mode, user, workdir, system folders, writable ones. */
const ENTER = `
set -e
root=$1 mode=$2 user=$3 workdir=$4 system=$5 writable=$6
shift 6
mount --make-rprivate /
mount --bind "$root" "$root"
for folder in $system; do
  mount --bind "/$folder" "$root/$folder"
  mount -o remount,bind,ro "$root/$folder"
done
mount --rbind /dev "$root/dev"
mount -t proc proc "$root/proc"
# The engines' images have no tini: entrypoint.sh is to do without.
for tini in bin/tini sbin/tini; do [ ! -e "$root/usr/$tini" ] || mount --bind /dev/null "$root/usr/$tini"; done
for folder in $writable; do mount -t tmpfs -o mode=1777 tmpfs "$root$folder"; done
mount -o "remount,bind,$mode" "$root"
exec chroot --userspec="$user" "$root" /bin/sh -c 'cd "$0" && exec "$@"' "$workdir" "$@"
`;

/** Whether this machine lets us make such namespaces. */
export function canContain(): boolean {
  return spawnSync('unshare', [...NAMESPACES, 'mount', '--make-rprivate', '/']).status === 0;
}

/**
 * @param options.writable folders that are volumes, empty at the start; `/tmp` is one too
 * @param options.isBuild the root itself is written to, as a RUN step of a Dockerfile does
 */
export function startContainer(
  image: StagedImage,
  root: string,
  options: { name: string; env: NodeJS.ProcessEnv; writable?: string[]; user?: string; isBuild?: boolean },
): Container {
  // A folder for temporary files is its owner's alone, and the owner is not always who runs inside.
  chmodSync(root, 0o755);
  const writable = ['/tmp', ...(options.writable ?? [])];
  for (const folder of ['proc', 'dev', ...writable]) mkdirSync(join(root, folder), { recursive: true });
  const system = SYSTEM_FOLDERS.filter((folder) => prepareSystemFolder(folder, root));
  const user = options.user ?? image.user ?? '0:0';
  const env = { PATH, HOME: '/root', ...image.env, ...options.env };
  const mode = options.isBuild ? 'rw' : 'ro';
  const enter = [
    'sh',
    '-c',
    ENTER,
    'enter',
    root,
    mode,
    user,
    image.workdir,
    system.join(' '),
    writable.join(' '),
  ];
  const child = startProcess('unshare', [...NAMESPACES, ...enter, ...image.entrypoint, ...image.command], {
    name: options.name,
    env,
  });
  const init = () => until(() => childOf(child.pid), `${options.name} has its first process`);
  return {
    process: child,
    init,
    stop: async () => {
      process.kill(await init(), 'SIGTERM');
      return (await child.exited).code;
    },
    run: (command) => {
      const into = ['--target', String(childOf(child.pid)), '--mount', '--pid', '--root', '--wd'];
      const { status, stdout, stderr } = spawnSync('nsenter', [...into, ...command], {
        env,
        encoding: 'utf8',
      });
      return { code: status, output: stdout + stderr };
    },
  };
}

/** @returns whether something is to be mounted there */
function prepareSystemFolder(folder: string, root: string): boolean {
  const here = `/${folder}`;
  const there = join(root, folder);
  if (!existsSync(here)) return false;
  if (!lstatSync(here).isSymbolicLink()) {
    mkdirSync(there, { recursive: true });
    return true;
  }
  if (!existsSync(there)) symlinkSync(readlinkSync(here), there);
  return false;
}

function childOf(pid: number): number | null {
  return Number(readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim()) || null;
}
