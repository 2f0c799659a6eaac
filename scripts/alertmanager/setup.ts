import { join, resolve } from 'node:path';
import { UserError } from '../../src/process/index.ts';
import { unpackPackages } from '../debian-packages.ts';
import { SetupSteps } from '../setup-steps.ts';

const PACKAGE = 'prometheus-alertmanager';
const HINT = `Alertmanager comes from Debian's package "${PACKAGE}". Set ALERTMANAGER to one that is installed.`;

const setup = new SetupSteps('Alertmanager');

/** Runs a program where the files of the package are in /usr/share: Debian's Alertmanager has its templates there. */
const WITH_SHARE = 'mount --bind "$0" /usr/share && exec "$@"';

/**
 * Prometheus' Alertmanager, out of Debian's package in `<stateDir>/alertmanager/` (9 MB to download). Where
 * `ALERTMANAGER` names a program, that one is used.
 * @returns the command that starts it, to which its flags are added
 * @throws UserError naming the step that failed, with the last lines of its output
 */
export async function ensureAlertmanager(stateDir = '.worker-vllm'): Promise<[string, ...string[]]> {
  if (process.env.ALERTMANAGER) return [process.env.ALERTMANAGER];
  const home = resolve(stateDir, 'alertmanager');
  await setup.once(home, PACKAGE, () => unpackPackages(setup, home, [PACKAGE], HINT));
  const program = join(home, 'root/usr/bin/prometheus-alertmanager');
  const share = join(home, 'root/usr/share');
  return ['unshare', '--mount', '--map-root-user', 'sh', '-c', WITH_SHARE, share, program];
}

if (import.meta.main) {
  try {
    console.log((await ensureAlertmanager(process.argv[2])).at(-1));
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    console.error(error.message);
    process.exitCode = error.exitCode;
  }
}
