import { basename, join, relative, resolve } from 'node:path';
import { EXIT } from '../process/index.ts';
import { plural } from '../show/format.ts';
import { takeBackup } from '../state/backup.ts';
import {
  checkDatabases,
  type DatabaseReport,
  halfRestoredText,
  isHalfRestored,
  OTHER_VERSION_ADVICE,
} from '../state/check.ts';
import { stateFolderError } from '../state/folder.ts';
import { restoreBackup } from '../state/restore.ts';
import { ProgressLine } from './progress.ts';
import { print } from './terminal.ts';

/**
 * Runs `worker-vllm state check`: prints what is wrong with each database and what can be saved. It changes nothing,
 * and a queue may be running.
 * @returns the exit code: `badState` if a queue could not use the folder
 * @throws UserError when the folder cannot be read
 */
export async function runStateCheck(options: { state: string }): Promise<number> {
  const stateDir = resolve(options.state);
  let reports: DatabaseReport[];
  try {
    reports = await checkDatabases(stateDir, 'full');
  } catch (error) {
    throw stateFolderError('read the state folder', stateDir, error);
  }
  if (isHalfRestored(stateDir)) {
    print(halfRestoredText(stateDir));
    return EXIT.badState;
  }
  print(stateText(stateDir, reports));
  return reports.some(({ problem }) => problem) ? EXIT.badState : EXIT.ok;
}

/** Returns the findings as text for people. */
export function stateText(stateDir: string, reports: readonly DatabaseReport[]): string {
  if (reports.length === 0) return `${stateDir} holds no state: a queue that starts there begins anew.`;
  const bad = reports.filter(({ problem }) => problem);
  const lines = reports.map((report) => {
    const size = `${Math.ceil(report.bytes / 1024)} KiB`;
    const jobs = report.jobs ? `; jobs: ${jobsText(report.jobs)}` : '';
    return `  ${relative(stateDir, report.path)} (${size}) ${report.problem?.text ?? 'is in order'}${jobs}`;
  });
  const verdict =
    bad.length === 0
      ? 'A queue can start on it.'
      : `No queue starts on it.\n${bad.map((report) => adviceFor(stateDir, report)).join('\n')}`;
  return [`${stateDir}:`, ...lines, verdict].join('\n');
}

/** Returns counts as `3 succeeded, 1 pending`. */
function jobsText(jobs: Record<string, number>): string {
  return (
    Object.entries(jobs)
      .map(([state, count]) => `${count} ${state}`)
      .join(', ') || 'none'
  );
}

function adviceFor(stateDir: string, { path, problem, jobs }: DatabaseReport): string {
  const name = basename(path);
  if (problem?.kind === 'version') {
    return `${name}: there is nothing to repair. ${OTHER_VERSION_ADVICE}`;
  }
  if (problem?.kind === 'unreadable') {
    return `${name}: give it to the user that the queue runs as (chown), or see why it cannot be read.`;
  }
  const aside = join(stateDir, 'damaged');
  const saved = jobs
    ? `Its jobs can still be read: ${jobsText(jobs)}.`
    : 'Its jobs cannot be counted any more.';
  return [
    `${name}: ${saved} With the queue stopped,`,
    `  mkdir -p ${aside} && mv ${path}* ${aside}/`,
    'moves it aside, and the queue starts without its jobs. What is readable of it may still be saved, before that start:',
    `  sqlite3 ${join(aside, name)} .dump | sed 's/^ROLLBACK;.*/COMMIT;/' | sqlite3 ${path}`,
    'Check the folder again afterwards.',
  ].join('\n');
}

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
 * Runs `worker-vllm state restore DIR`: makes a state folder from a backup.
 * @returns the exit code
 * @throws UserError if the backup is not whole, or the state folder is not empty
 */
export async function runStateRestore(from: string, options: { state: string }): Promise<number> {
  const [stateDir, folder] = [resolve(options.state), resolve(from)];
  const shown = progress('restored');
  const { taken_at } = await restoreBackup(folder, stateDir, shown.show);
  shown.end();
  print(`${stateDir} is as ${folder} was taken, at ${taken_at}. A queue can start on it.`);
  return EXIT.ok;
}

/** Returns the numbers of jobs of all databases, by state. */
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
