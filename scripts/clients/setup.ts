import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { UserError } from '../../src/process/index.ts';
import { findPython, SetupSteps } from '../setup-steps.ts';

/** Clients that others wrote, from PyPI, unmodified. */
const PACKAGES = ['runpod==1.12.0'];

/** Clients of test/clients, ready to run. */
export interface ClientsInstall {
  /** The Python of a virtual environment that has all of them. */
  python: string;
}

const setup = new SetupSteps('clients');

/**
 * Makes the installation in `<stateDir>/clients/` if it is not there yet or lacks a package (a minute or two), and
 * says so on stderr. Safe to call from several processes at once: one installs, the others wait.
 * @throws UserError naming the step that failed, with the last lines of its output
 */
export async function ensureClients(stateDir = '.worker-vllm'): Promise<ClientsInstall> {
  const home = resolve(stateDir, 'clients');
  const install: ClientsInstall = { python: join(home, 'venv/bin/python') };
  if (isComplete(home)) return install;
  mkdirSync(home, { recursive: true });
  const unlock = await setup.lock(join(home, 'lock.sqlite'));
  try {
    if (!isComplete(home)) await make(home, install);
  } finally {
    unlock();
  }
  return install;
}

/** What is in the marker of an installation that has everything. */
const COMPLETE = `${PACKAGES.join('\n')}\n`;

function isComplete(home: string): boolean {
  const marker = join(home, 'complete');
  return existsSync(marker) && readFileSync(marker, 'utf8') === COMPLETE;
}

async function make(home: string, { python }: ClientsInstall): Promise<void> {
  const log = join(home, 'install.log');
  if (!existsSync(python)) {
    const base = findPython('the clients', { from: 10, to: 14 });
    await setup.step('making a virtual environment', log, base, ['-m', 'venv', join(home, 'venv')]);
  }
  const pip = ['-m', 'pip', 'install', '--quiet', '--no-compile', '--disable-pip-version-check'];
  await setup.step(`installing ${PACKAGES.join(', ')}`, log, python, [...pip, ...PACKAGES]);
  writeFileSync(join(home, 'complete'), COMPLETE);
}

if (import.meta.main) {
  try {
    console.log(JSON.stringify(await ensureClients(process.argv[2]), null, 2));
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    console.error(error.message);
    process.exitCode = error.exitCode;
  }
}
