import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { SetupSteps } from './setup-steps.ts';

/**
 * Unpacks programs of Debian's packages into `HOME/root`, with the packages that they need and this machine lacks:
 * apt-get downloads and dpkg-deb unpacks them, since their installation would add services, and start them, on the
 * developer's machine. It needs no rights.
 * @param hint for the message of a failure
 * @throws UserError naming the step that failed, with the last lines of its output
 */
export async function unpackPackages(
  setup: SetupSteps,
  home: string,
  packages: readonly string[],
  hint: string,
): Promise<void> {
  const log = join(home, 'install.log');
  const own = join(home, 'packages');
  for (const old of ['root', 'packages', 'install.log'])
    rmSync(join(home, old), { recursive: true, force: true });
  for (const folder of ['lists/partial', 'cache/archives/partial']) {
    mkdirSync(join(own, folder), { recursive: true });
  }
  // apt gets its own folders, so that it needs no rights and old lists of packages do no harm.
  const apt = [
    ...['-o', `Dir::State::lists=${join(own, 'lists')}`, '-o', `Dir::Cache=${join(own, 'cache')}`],
    ...['-o', 'APT::Sandbox::User=root', '-o', 'Debug::NoLocking=true'],
  ];
  const told = { hintFor: () => `\n${hint}` };
  await setup.step('reading the lists of packages', log, 'apt-get', [...apt, 'update'], told);
  // With `--reinstall` apt also downloads packages that the machine has.
  const download = ['install', '--download-only', '--reinstall', '--yes', '--no-install-recommends'];
  await setup.step(`downloading ${packages[0]}`, log, 'apt-get', [...apt, ...download, ...packages], told);
  const unpack = ['-c', 'for file in "$0"/*.deb; do dpkg-deb -x "$file" "$1" || exit 1; done'];
  const archives = join(own, 'cache/archives');
  await setup.step('unpacking it', log, 'sh', [...unpack, archives, join(home, 'root')], told);
  rmSync(own, { recursive: true });
}
