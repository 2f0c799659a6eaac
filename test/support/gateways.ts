import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { childrenOf } from '../soak/proc.ts';
import type { QueueProcess, WorkerProcess } from './road.ts';

/** The processes of a queue with gateways of its own (`queue --gateways`). */

/** Waits until a process is up, and returns its id. @param but the id of the process before it; left out: any is meant */
export async function processOf(queue: QueueProcess, name: string, but?: number): Promise<number> {
  const others = but === undefined ? '' : `(?!${but}\\))`;
  await queue.process.waitForLine(new RegExp(`${name} \\(process ${others}\\d+\\) is up`));
  return newestOf(queue, name);
}

/** Returns the id of the newest process of a name. */
function newestOf(queue: QueueProcess, name: string): number {
  const lines = queue.process.output().matchAll(new RegExp(`${name} \\(process (\\d+)\\) is up`, 'g'));
  return Number([...lines].at(-1)?.[1]);
}

/** Returns whether a process runs. */
export function isAlive(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)?.[0] !== 'Z';
  } catch {
    return false;
  }
}

/** The connections of this network: the port of this end, that of the other one, and the inode of this end's socket. */
function connections(): { local: number; remote: number; inode: string }[] {
  const rows = readFileSync('/proc/net/tcp', 'utf8').trim().split('\n').slice(1);
  return rows.map((row) => {
    const [, local, remote, , , , , , , inode] = row.trim().split(/\s+/);
    return { local: portIn(local!), remote: portIn(remote!), inode: inode! };
  });
}

function portIn(address: string): number {
  return Number.parseInt(address.split(':')[1]!, 16);
}

function holds(pid: number, inode: string): boolean {
  return readdirSync(`/proc/${pid}/fd`).some((fd) => linkOf(pid, fd) === `socket:[${inode}]`);
}

/** Returns the ports of a worker's connections to the queue. */
export function portsOf(queue: QueueProcess, worker: WorkerProcess): number[] {
  const pids = childrenOf(worker.process.pid);
  return connections()
    .filter(({ remote, inode }) => remote === queue.port && pids.some((pid) => holds(pid, inode)))
    .map(({ local }) => local);
}

/** Returns which process has the other end of a connection to the queue. @param port of this end */
export function holderOf(queue: QueueProcess, pids: readonly number[], port: number): number | undefined {
  const end = connections().find(({ local, remote }) => local === queue.port && remote === port);
  return end && pids.find((pid) => isAlive(pid) && holds(pid, end.inode));
}

function linkOf(pid: number, fd: string): string | null {
  try {
    return readlinkSync(`/proc/${pid}/fd/${fd}`);
  } catch {
    return null;
  }
}
