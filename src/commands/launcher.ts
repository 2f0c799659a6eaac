import { resolve } from 'node:path';
import { type LauncherOptions, startLauncher } from '../launcher/run.ts';
import { createLogger, EXIT, endSignals, UserError } from '../process/index.ts';
import type { QueueTarget } from './ask-queue.ts';
import { applyFleet, changeLines } from './fleet/control.ts';
import { readFleetFile } from './fleet/file.ts';
import { runFleet } from './fleet/run-fleet.ts';
import { print, printNote } from './terminal.ts';

export interface LauncherCommand extends QueueTarget, Pick<LauncherOptions, 'workerUrl' | 'id' | 'drivers'> {
  state: string;
  /** Whether the command only prints what the file would change. */
  dryRun?: boolean;
}

/**
 * Runs `worker-vllm launcher [FILE]`: carries out the orders of a queue's scheduler, until a signal arrives or the
 * queue refuses its token. Given a fleet's file, it applies that first, and again whenever the file changes.
 * @returns the exit code
 * @throws UserError when an option, the file, the queue or the token cannot be used
 */
export async function runLauncher(
  path: string | undefined,
  { dryRun, state, workerUrl, id, drivers, ...target }: LauncherCommand,
  env: NodeJS.ProcessEnv,
): Promise<number> {
  if (dryRun) return await printChanges(path, target, env);
  let reload = () => {};
  const signals = path === undefined ? endSignals() : endSignals(undefined, () => reload());
  const options = { stateDir: resolve(state), workerUrl, id, drivers };
  try {
    const fleet = path === undefined ? null : await runFleet(path, target, options, env);
    if (fleet) reload = fleet.reload;
    const launcher =
      fleet?.launcher ?? startLauncher({ ...options, ...target }, env, createLogger('launcher', env));
    const first = await Promise.race([signals.first, launcher.ended]);
    fleet?.stop();
    if (typeof first === 'number') return first;
    print(
      `${first}: the launcher finishes its calls to providers; a second signal ends it at once. The fleet stays in force and its machines run on until a launcher is there again. To end them, run "worker-vllm fleet remove" while one is.`,
    );
    launcher.stop();
    const ended = await Promise.race([launcher.ended, signals.second]);
    return typeof ended === 'number' ? ended : EXIT.forced;
  } finally {
    signals.release();
  }
}

async function printChanges(
  path: string | undefined,
  target: QueueTarget,
  env: NodeJS.ProcessEnv,
): Promise<number> {
  if (path === undefined)
    throw new UserError('--dry-run needs a fleet file: it prints what that would change.');
  const { document, warnings } = await readFleetFile(path, env);
  for (const warning of warnings) printNote(warning);
  print(changeLines(await applyFleet(target, document, true)).join('\n'));
  return EXIT.ok;
}
