import { resolve } from 'node:path';
import type { LauncherOptions } from '../launcher/run.ts';
import { EXIT, endSignals } from '../process/index.ts';
import type { QueueTarget } from './ask-queue.ts';
import { applyFleet, changeLines } from './fleet/control.ts';
import { readFleetFile } from './fleet/file.ts';
import { runFleet } from './fleet/run-fleet.ts';

export interface ScheduleOptions extends QueueTarget, Pick<LauncherOptions, 'workerUrl' | 'id' | 'drivers'> {
  state: string;
  /** Only tells what would change. */
  dryRun?: boolean;
}

/**
 * `worker-vllm schedule FILE`: applies a fleet to a queue and carries out what the scheduler there orders, until a
 * signal.
 * @returns the exit code
 * @throws UserError when the file, the queue or the token is not in order
 */
export async function runSchedule(
  path: string,
  { dryRun, state, workerUrl, id, drivers, ...target }: ScheduleOptions,
  env: NodeJS.ProcessEnv,
): Promise<number> {
  if (dryRun) {
    const { document, warnings } = await readFleetFile(path, env);
    for (const warning of warnings) process.stderr.write(`${warning}\n`);
    process.stdout.write(`${changeLines(await applyFleet(target, document, true)).join('\n')}\n`);
    return EXIT.ok;
  }
  let reload = () => {};
  const signals = endSignals(undefined, () => reload());
  try {
    const fleet = await runFleet(path, target, { stateDir: resolve(state), workerUrl, id, drivers }, env);
    reload = fleet.reload;
    const first = await Promise.race([signals.first, fleet.launcher.ended]);
    fleet.stop();
    if (typeof first === 'number') return first;
    process.stdout.write(
      `${first}: the fleet stays in force, and what runs runs on until a launcher is there again. To end it all, run "worker-vllm fleet remove" while one is.\n`,
    );
    fleet.launcher.stop();
    const ended = await Promise.race([fleet.launcher.ended, signals.second]);
    return typeof ended === 'number' ? ended : EXIT.forced;
  } finally {
    signals.release();
  }
}
