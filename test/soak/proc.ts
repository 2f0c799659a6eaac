import { readdirSync, readFileSync } from 'node:fs';

/** What the soak needs to know of the machine's processes; Linux only. */

/** Name of the variable that marks every process of one soak. */
export const MARK = 'SOAK_RUN';

export function childrenOf(pid: number): number[] {
  const list = read(`/proc/${pid}/task/${pid}/children`).trim();
  return list === '' ? [] : list.split(' ').map(Number);
}

export function commandLine(pid: number): string {
  return read(`/proc/${pid}/cmdline`).replaceAll('\0', ' ').trim();
}

/** Processes whose environment carries the mark, or whose command line names the folder, apart from this one. */
export function processesOf(mark: string, folder: string): { pid: number; command: string }[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .filter((name) => {
      const isOurs = read(`/proc/${name}/environ`).split('\0').includes(`${MARK}=${mark}`);
      return isOurs || read(`/proc/${name}/cmdline`).includes(folder);
    })
    .map((name) => ({ pid: Number(name), command: commandLine(Number(name)) }));
}

/** @returns false: it is gone already */
export function signal(pid: number, name: NodeJS.Signals): boolean {
  try {
    return process.kill(pid, name);
  } catch {
    return false;
  }
}

/** Empty for a process that is gone or not ours to look at. */
function read(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
