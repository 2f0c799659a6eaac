import { join, resolve } from 'node:path';
import { UserError } from '../../src/process/index.ts';
import { unpackPackages } from '../debian-packages.ts';
import { SetupSteps } from '../setup-steps.ts';

const PACKAGE = 'prometheus';
const HINT = `promtool comes from Debian's package "${PACKAGE}". Set PROMTOOL to one that is installed.`;

const setup = new SetupSteps('promtool');

/**
 * Prometheus' promtool, out of Debian's package in `<stateDir>/prometheus/` (20 MB to download). Where `PROMTOOL` names a
 * program, that one is used.
 * @returns the program
 * @throws UserError naming the step that failed, with the last lines of its output
 */
export async function ensurePromtool(stateDir = '.worker-vllm'): Promise<string> {
  if (process.env.PROMTOOL) return process.env.PROMTOOL;
  const home = resolve(stateDir, 'prometheus');
  await setup.once(home, PACKAGE, () => unpackPackages(setup, home, [PACKAGE], HINT));
  return join(home, 'root/usr/bin/promtool');
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
