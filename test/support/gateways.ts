import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import type { QueueProcess } from './road.ts';

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

/**
 * Returns which connections to the queue a process holds, by the port of the other end. All are looked up at once: with
 * hundreds of them that takes long enough for a stream to end.
 */
export function heldBy(queue: QueueProcess, pid: number): Set<number> {
  const sockets = new Set(readdirSync(`/proc/${pid}/fd`).map((fd) => linkOf(pid, fd)));
  const rows = readFileSync('/proc/net/tcp', 'utf8').trim().split('\n').slice(1);
  const ports = rows.flatMap((row) => {
    const [, local, remote, , , , , , , inode] = row.trim().split(/\s+/);
    const isHeld = portIn(local!) === queue.port && sockets.has(`socket:[${inode}]`);
    return isHeld ? [portIn(remote!)] : [];
  });
  return new Set(ports);
}

function portIn(address: string): number {
  return Number.parseInt(address.split(':')[1]!, 16);
}

function linkOf(pid: number, fd: string): string | null {
  try {
    return readlinkSync(`/proc/${pid}/fd/${fd}`);
  } catch {
    return null;
  }
}
