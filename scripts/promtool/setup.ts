import { mkdirSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { UserError } from '../../src/process/index.ts';
import { SetupSteps } from '../setup-steps.ts';

const PACKAGE = 'prometheus';

const setup = new SetupSteps('promtool');

/**
 * Prometheus' promtool, out of Debian's package in `<stateDir>/prometheus/` (20 MB to download): apt-get downloads it and
 * dpkg-deb unpacks it, since its installation would add a Prometheus server, and start it, on the developer's machine.
 * Where `PROMTOOL` names a program, that one is used.
 * @returns the program
 * @throws UserError naming the step that failed, with the last lines of its output
 */
export async function ensurePromtool(stateDir = '.worker-vllm'): Promise<string> {
  if (process.env.PROMTOOL) return process.env.PROMTOOL;
  const home = resolve(stateDir, 'prometheus');
  await setup.once(home, PACKAGE, () => make(home));
  return join(home, 'root/usr/bin/promtool');
}

async function make(home: string): Promise<void> {
  const log = join(home, 'install.log');
  const packages = join(home, 'packages');
  for (const old of ['root', 'packages', 'install.log'])
    rmSync(join(home, old), { recursive: true, force: true });
  for (const folder of ['lists/partial', 'cache/archives/partial']) {
    mkdirSync(join(packages, folder), { recursive: true });
  }
  // apt's own folders, so that no rights are needed and old lists of packages do no harm.
  const apt = [
    ...['-o', `Dir::State::lists=${join(packages, 'lists')}`, '-o', `Dir::Cache=${join(packages, 'cache')}`],
    ...['-o', 'APT::Sandbox::User=root', '-o', 'Debug::NoLocking=true'],
  ];
  const hint = () =>
    `\npromtool comes from Debian's package "${PACKAGE}". Set PROMTOOL to one that is installed.`;
  await setup.step('reading the lists of packages', log, 'apt-get', [...apt, 'update'], { hintFor: hint });
  // It downloads to where it stands.
  const download = ['-c', 'cd "$0" && exec apt-get "$@"', packages, ...apt, 'download', PACKAGE];
  await setup.step(`downloading ${PACKAGE}`, log, 'sh', download, { hintFor: hint });
  const unpack = ['-c', 'for file in "$0"/*.deb; do dpkg-deb -x "$file" "$1" || exit 1; done'];
  await setup.step('unpacking it', log, 'sh', [...unpack, packages, join(home, 'root')], { hintFor: hint });
  rmSync(packages, { recursive: true });
}

if (import.meta.main) {
  try {
    console.log(await ensurePromtool(process.argv[2]));
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    console.error(error.message);
    process.exitCode = error.exitCode;
  }
}
