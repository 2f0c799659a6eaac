import { rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { UserError } from '../../src/process/index.ts';
import { findPython, recipeOf, SetupSteps } from '../setup-steps.ts';

/** llama.cpp's server and a tiny model of random weights. */
export interface LlamaInstall {
  /** The program `llama-server`. */
  server: string;
  model: string;
}

const LIST = listOf('requirements.txt');
const MAKER = listOf('make_tiny_gguf.py');

const setup = new SetupSteps('engines');

function listOf(name: string): string {
  return join(import.meta.dirname, name);
}

/**
 * Makes the installation in `<stateDir>/engines/` if it is not there yet or what makes it has changed (half a minute,
 * 300 MB), and says so on stderr.
 * @throws UserError naming the step that failed, with the last lines of its output
 */
export async function ensureLlama(stateDir = '.worker-vllm'): Promise<LlamaInstall> {
  const home = resolve(stateDir, 'engines');
  const install: LlamaInstall = {
    server: join(home, 'venv/bin/llama-server-vulkan'),
    model: join(home, 'tiny.gguf'),
  };
  await setup.once(home, recipeOf([LIST, MAKER]), () => make(home, install));
  return install;
}

async function make(home: string, { model }: LlamaInstall): Promise<void> {
  const log = join(home, 'install.log');
  const venv = join(home, 'venv');
  const python = join(venv, 'bin/python');
  rmSync(venv, { recursive: true, force: true });
  const base = findPython('llama.cpp', { from: 10, to: 14 });
  await setup.step('making a virtual environment', log, base, ['-m', 'venv', venv]);
  const pip = ['-m', 'pip', 'install', '--quiet', '--no-compile', '--disable-pip-version-check', '-r', LIST];
  await setup.step('installing llama.cpp', log, python, pip);
  await setup.step('writing the tiny model', log, python, [MAKER, model]);
}

if (import.meta.main) {
  try {
    console.log(JSON.stringify(await ensureLlama(process.argv[2]), null, 2));
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    console.error(error.message);
    process.exitCode = error.exitCode;
  }
}
