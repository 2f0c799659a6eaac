import { basename, join, relative, resolve } from 'node:path';
import { EXIT } from '../process/index.ts';
import {
  checkDatabases,
  type DatabaseReport,
  halfRestoredText,
  isHalfRestored,
  OTHER_VERSION_ADVICE,
} from '../state/check.ts';
import { stateFolderError } from '../state/folder.ts';
import { print } from './print.ts';

/**
 * Runs `worker-vllm state check`: prints what is wrong with each database and what can be saved. It changes nothing,
 * and a queue may be running.
 * @returns the exit code: `badState` where a queue could not use the folder
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

/** Returns the findings for people. */
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
export function jobsText(jobs: Record<string, number>): string {
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
