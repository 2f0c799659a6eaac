import { readdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { UserError } from '../../src/process/index.ts';
import { unpackPackages } from '../debian-packages.ts';
import { SetupSteps } from '../setup-steps.ts';

/** Proxies as operators run them: one that programs dial out through, two in front of a queue. */
const PACKAGES = ['tinyproxy-bin', 'nginx', 'haproxy'];
const HINT = `The proxies for the tests come from Debian's packages (${PACKAGES.join(', ')}).`;

const setup = new SetupSteps('proxies');

export interface Proxies {
  tinyproxy: string;
  nginx: string;
  haproxy: string;
  /** The environment of the proxies: their libraries are beside them. */
  env: NodeJS.ProcessEnv;
}

/**
 * tinyproxy, nginx and HAProxy, out of Debian's packages in `<stateDir>/proxies/` (3 MB to download). Safe to call from
 * several processes at once.
 * @throws UserError naming the step that failed, with the last lines of its output
 */
export async function ensureProxies(stateDir = '.worker-vllm'): Promise<Proxies> {
  const home = resolve(stateDir, 'proxies');
  await setup.once(home, PACKAGES.join(' '), () => unpackPackages(setup, home, PACKAGES, HINT));
  const root = join(home, 'root');
  const libraries = ['lib', 'usr/lib'].flatMap((folder) => [
    join(root, folder),
    ...foldersIn(join(root, folder)).filter((name) => name.endsWith('-linux-gnu')),
  ]);
  return {
    tinyproxy: join(root, 'usr/bin/tinyproxy'),
    nginx: join(root, 'usr/sbin/nginx'),
    haproxy: join(root, 'usr/sbin/haproxy'),
    env: { ...process.env, LD_LIBRARY_PATH: libraries.join(':') },
  };
}

function foldersIn(folder: string): string[] {
  try {
    return readdirSync(folder).map((name) => join(folder, name));
  } catch {
    return [];
  }
}

if (import.meta.main) {
  try {
    const { env: _, ...programs } = await ensureProxies(process.argv[2]);
    console.log(programs);
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    console.error(error.message);
    process.exitCode = error.exitCode;
  }
}
