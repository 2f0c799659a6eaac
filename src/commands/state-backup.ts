import { resolve } from 'node:path';
import { EXIT } from '../process/index.ts';
import { plural } from '../show/format.ts';
import { takeBackup } from '../state/backup.ts';
import type { DatabaseReport } from '../state/check.ts';
import { restoreBackup } from '../state/restore.ts';
import { print } from './print.ts';
import { ProgressLine } from './progress-line.ts';
import { jobsText } from './state.ts';

/**
 * Runs `worker-vllm state backup DIR`: copies the state of a queue, which may be running.
 * @returns the exit code
 * @throws UserError when the state cannot be copied, or DIR is not empty
 */
export async function runStateBackup(to: string, options: { state: string }): Promise<number> {
  const [stateDir, folder] = [resolve(options.state), resolve(to)];
  const shown = progress('copied');
  const { takenAt, bytes, reports } = await takeBackup(stateDir, folder, shown.show);
  shown.end();
  print(
    `${folder}: ${plural(reports.length, 'database')}, ${sizeText(bytes)}, as of ${takenAt}; jobs: ${jobsText(jobsOf(reports))}\n` +
      `It holds prompts, results and hashes of tokens. "worker-vllm state restore ${folder}" makes a state folder of it.`,
  );
  return EXIT.ok;
}

/**
 * Runs `worker-vllm state restore DIR`: makes a state folder of a backup.
 * @returns the exit code
 * @throws UserError where the backup is not whole, or the state folder is not empty
 */
export async function runStateRestore(from: string, options: { state: string }): Promise<number> {
  const [stateDir, folder] = [resolve(options.state), resolve(from)];
  const shown = progress('restored');
  const { taken_at } = await restoreBackup(folder, stateDir, shown.show);
  shown.end();
  print(`${stateDir} is as ${folder} was taken, at ${taken_at}. A queue can start on it.`);
  return EXIT.ok;
}

/** Returns the numbers of jobs of all databases together, by state. */
function jobsOf(reports: DatabaseReport[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const [state, count] of reports.flatMap(({ jobs }) => Object.entries(jobs ?? {})))
    counts[state] = (counts[state] ?? 0) + count;
  return counts;
}

/** Shows on stderr how much was done. */
function progress(what: string) {
  const line = new ProgressLine(process.stderr);
  return {
    show: (done: number, total: number) => {
      const percent = Math.floor((100 * done) / Math.max(1, total));
      line.show(`${what} ${sizeText(done)} of ${sizeText(total)} (${percent} %)`);
    },
    end: () => line.clear(),
  };
}

function sizeText(bytes: number): string {
  return bytes < 1024 * 1024 ? `${Math.ceil(bytes / 1024)} KiB` : `${(bytes / 1024 / 1024).toFixed(1)} MiB`;
}
