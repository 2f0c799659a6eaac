import { globSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { UserError } from '../../src/process/index.ts';
import { unpackPackages } from '../debian-packages.ts';
import { findPython, recipeOf, SetupSteps } from '../setup-steps.ts';

/** The servers in which a journal may be, for tests. */
export interface JournalServers {
  /** The folder of PostgreSQL's programs. */
  postgres: string;
  /** The environment of PostgreSQL's programs: their libraries may be beside them. */
  postgresEnv: NodeJS.ProcessEnv;
  /** SeaweedFS, an object store with S3's API. */
  weed: string;
  /** The command that serves moto, which answers as S3 is documented to; the port is its last argument. */
  moto: [command: string, ...args: string[]];
}

const PACKAGE = 'postgresql';
const HINT = `PostgreSQL for the tests comes from Debian's package "${PACKAGE}".`;
const LIST = join(import.meta.dirname, 'requirements.txt');

const setup = new SetupSteps('journal servers');

/**
 * PostgreSQL, the machine's own or else out of Debian's package, and two object stores from PyPI, in
 * `<stateDir>/journal-servers/` (half a minute).
 * @throws UserError naming the step that failed, with the last lines of its output
 */
export async function ensureJournalServers(stateDir = '.worker-vllm'): Promise<JournalServers> {
  const home = resolve(stateDir, 'journal-servers');
  const stores = join(home, 's3');
  await setup.once(stores, recipeOf([LIST]), () => makeStores(stores));
  return {
    ...(await ensurePostgres(join(home, 'postgres'))),
    weed: join(stores, 'venv/bin/weed'),
    moto: [join(stores, 'venv/bin/python'), join(import.meta.dirname, 'serve_moto.py')],
  };
}

async function ensurePostgres(home: string): Promise<Pick<JournalServers, 'postgres' | 'postgresEnv'>> {
  const own = programsIn('/');
  if (own) return { postgres: own, postgresEnv: process.env };
  await setup.once(home, PACKAGE, () => unpackPackages(setup, home, [PACKAGE], HINT));
  const root = join(home, 'root');
  const libraries = globSync('{lib,usr/lib}/*-linux-gnu', { cwd: root }).map((folder) => join(root, folder));
  return {
    postgres: programsIn(root)!,
    postgresEnv: { ...process.env, LD_LIBRARY_PATH: libraries.join(':') },
  };
}

function programsIn(root: string): string | null {
  const [server] = globSync('usr/lib/postgresql/*/bin/postgres', { cwd: root }).sort().reverse();
  return server ? dirname(join(root, server)) : null;
}

async function makeStores(home: string): Promise<void> {
  const log = join(home, 'install.log');
  const venv = join(home, 'venv');
  const base = findPython('the object stores', { from: 10, to: 14 });
  await setup.step('making a virtual environment', log, base, ['-m', 'venv', '--clear', venv]);
  const pip = ['-m', 'pip', 'install', '--quiet', '--no-compile', '--disable-pip-version-check'];
  await setup.step('installing the object stores', log, join(venv, 'bin/python'), [...pip, '-r', LIST]);
}

if (import.meta.main) {
  try {
    const { postgresEnv: _, ...programs } = await ensureJournalServers(process.argv[2]);
    console.log(programs);
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    console.error(error.message);
    process.exitCode = error.exitCode;
  }
}
