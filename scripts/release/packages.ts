import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { findPython, recipeOf, SetupSteps } from '../setup-steps.ts';

/** The packages for others than npm. Each is made of a commit's files alone, and dated by the commit. */

const setup = new SetupSteps('release');

/**
 * Packs the Helm chart, in the form that `helm install` takes: a folder of the chart's name in a compressed archive.
 * @param into an existing folder
 * @returns the archive's path
 */
export function packChart(root: string, into: string, version: string): string {
  // The date of each file is the commit's.
  const tar = execFileSync(
    'git',
    ['-c', 'tar.umask=0022', 'archive', '--format=tar', 'HEAD', 'worker-vllm'],
    {
      cwd: join(root, 'deploy/helm'),
    },
  );
  const path = join(into, `worker-vllm-${version}.tgz`);
  writeFileSync(path, gzipSync(tar, { level: 9 }));
  return path;
}

/**
 * Builds the sdist and the wheel of the client for Python.
 * @param into an existing folder
 * @param committedAt the date of their files, seconds since 1970
 * @throws UserError where there is no Python with venv, or its build backend cannot be installed
 */
export async function buildPython(root: string, into: string, committedAt: number): Promise<void> {
  const python = await releaseTools(root, 'requirements.txt');
  execFileSync(join(python, 'python'), ['-m', 'hatchling', 'build', '--directory', into], {
    cwd: join(root, 'clients/python'),
    env: { ...process.env, SOURCE_DATE_EPOCH: String(committedAt) },
    // The error quotes what the command printed.
    stdio: 'pipe',
  });
}

/**
 * Installs the Python packages of a list of this folder once, in `.worker-vllm/release-tools/`.
 * @returns the folder of their programs
 * @throws UserError naming the step that failed
 */
export async function releaseTools(root: string, list: string): Promise<string> {
  const file = join(import.meta.dirname, list);
  const home = join(root, '.worker-vllm/release-tools', list.replace('.txt', ''));
  const venv = join(home, 'venv');
  await setup.once(home, recipeOf([file]), async () => {
    mkdirSync(home, { recursive: true });
    const log = join(home, 'install.log');
    const base = findPython('A release', { from: 10, to: 14 });
    await setup.step('making a virtual environment', log, base, ['-m', 'venv', '--clear', venv]);
    const pip = ['-m', 'pip', 'install', '--quiet', '--no-compile', '--disable-pip-version-check'];
    await setup.step(`installing ${list}`, log, join(venv, 'bin/python'), [...pip, '-r', file]);
  });
  return join(venv, 'bin');
}
