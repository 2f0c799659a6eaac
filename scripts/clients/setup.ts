import { copyFileSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import pRetry from 'p-retry';
import { UserError } from '../../src/process/index.ts';
import { findPython, recipeOf, SetupSteps } from '../setup-steps.ts';

/** Clients that others wrote, unmodified, ready to run. Their versions are in the lists beside this file. */
export interface ClientsInstall {
  /** The Python of a virtual environment with what requirements.txt lists. */
  python: string;
  /** The Python of an environment with LiteLLM, which asks for other versions than the rest. */
  pythonWithLiteLLM: string;
  /** A folder with what package.json lists in its node_modules. */
  node: string;
}

const LISTS = ['requirements.txt', 'requirements-litellm.txt', 'package.json'].map(listOf);

const setup = new SetupSteps('clients');

/** It takes half a minute. */
const NPM_LIMIT_MS = 240_000;

function listOf(name: string): string {
  return join(import.meta.dirname, name);
}

/**
 * Makes the installation in `<stateDir>/clients/` if it is not there yet or the lists have changed (a minute or
 * two), and says so on stderr.
 * @throws UserError naming the step that failed, with the last lines of its output
 */
export async function ensureClients(stateDir = '.worker-vllm'): Promise<ClientsInstall> {
  const home = resolve(stateDir, 'clients');
  const install: ClientsInstall = {
    python: join(home, 'venv/bin/python'),
    pythonWithLiteLLM: join(home, 'venv-litellm/bin/python'),
    node: home,
  };
  await setup.once(home, recipeOf(LISTS), () => make(home));
  return install;
}

async function make(home: string): Promise<void> {
  const log = join(home, 'install.log');
  await makeVenv(log, join(home, 'venv'), 'requirements.txt');
  await makeVenv(log, join(home, 'venv-litellm'), 'requirements-litellm.txt');
  copyFileSync(listOf('package.json'), join(home, 'package.json'));
  const npm = ['install', '--no-audit', '--no-fund', '--no-package-lock', '--prefix', home];
  // It has been seen to wait for ever, with no connection open.
  await pRetry(() => setup.step('installing packages for Node', log, 'npm', npm, { limitMs: NPM_LIMIT_MS }), {
    retries: 1,
  });
}

async function makeVenv(log: string, venv: string, list: string): Promise<void> {
  rmSync(venv, { recursive: true, force: true });
  const base = findPython('the clients', { from: 10, to: 14 });
  await setup.step('making a virtual environment', log, base, ['-m', 'venv', venv]);
  const pip = ['-m', 'pip', 'install', '--quiet', '--no-compile', '--disable-pip-version-check'];
  await setup.step(`installing ${list}`, log, join(venv, 'bin/python'), [...pip, '-r', listOf(list)]);
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
