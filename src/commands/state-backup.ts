import { resolve } from 'node:path';
import { EXIT } from '../process/index.ts';
import { takeBackup } from '../workerd/backup/backup.ts';
import { restoreBackup } from '../workerd/backup/restore.ts';
import type { DatabaseReport } from '../workerd/state-check.ts';

/** A line about the progress is written so often at most, ms; on a terminal it takes the place of the one before. */
const EVERY_MS = { terminal: 100, elsewhere: 10_000 };

/**
 * `worker-vllm state backup DIR`: copies the state of a queue, which may be running.
 * @returns the exit code
 * @throws UserError when it cannot be copied, or DIR is not empty
 */
export async function runStateBackup(to: string, options: { state: string }): Promise<number> {
  const [stateDir, folder] = [resolve(options.state), resolve(to)];
  const shown = progressLine('copied');
  const { takenAt, bytes, reports } = await takeBackup(stateDir, folder, shown.show);
  shown.end();
  process.stdout.write(
    `${folder}: ${reports.length} databases, ${sizeText(bytes)}, as of ${takenAt}; jobs: ${jobsText(reports)}\n` +
      `It holds prompts, results and hashes of tokens. "worker-vllm state restore ${folder}" makes a state folder of it.\n`,
  );
  return EXIT.ok;
}

/**
 * `worker-vllm state restore DIR`: makes a state folder of a backup.
 * @returns the exit code
 * @throws UserError where the backup is not whole, or the state folder holds something
 */
export async function runStateRestore(from: string, options: { state: string }): Promise<number> {
  const [stateDir, folder] = [resolve(options.state), resolve(from)];
  const shown = progressLine('restored');
  const { taken_at } = await restoreBackup(folder, stateDir, shown.show);
  shown.end();
  process.stdout.write(`${stateDir} is as ${folder} was taken, at ${taken_at}. A queue can start on it.\n`);
  return EXIT.ok;
}

function jobsText(reports: DatabaseReport[]): string {
  const counts = new Map<string, number>();
  for (const [state, count] of reports.flatMap(({ jobs }) => Object.entries(jobs ?? {}))) {
    counts.set(state, (counts.get(state) ?? 0) + count);
  }
  return [...counts].map(([state, count]) => `${count} ${state}`).join(', ') || 'none';
}

function progressLine(what: string) {
  const { stderr } = process;
  const everyMs = stderr.isTTY ? EVERY_MS.terminal : EVERY_MS.elsewhere;
  let writtenAt = stderr.isTTY ? Number.NEGATIVE_INFINITY : performance.now();
  let isDrawn = false;
  return {
    show: (done: number, total: number) => {
      const now = performance.now();
      if (now - writtenAt < everyMs) return;
      writtenAt = now;
      isDrawn = true;
      const percent = Math.floor((100 * done) / Math.max(1, total));
      const text = `${what} ${sizeText(done)} of ${sizeText(total)} (${percent} %)`;
      stderr.write(stderr.isTTY ? `\r\x1b[2K${text}` : `${text}\n`);
    },
    end: () => {
      if (isDrawn && stderr.isTTY) stderr.write('\r\x1b[2K');
    },
  };
}

function sizeText(bytes: number): string {
  return bytes < 1024 * 1024 ? `${Math.ceil(bytes / 1024)} KiB` : `${(bytes / 1024 / 1024).toFixed(1)} MiB`;
}
