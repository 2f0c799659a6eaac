import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { commandLine } from '../soak/proc.ts';
import { freePort } from '../support/ports.ts';
import { type QueueProcess, readyWorker, startQueue, type WorkerProcess } from '../support/road.ts';

/** A road under attack, and what its queue takes up of the machine. */
export interface Target {
  queue: QueueProcess;
  worker: WorkerProcess;
  /** Of the queue. */
  pid: number;
}

/** What the queue holds at a moment. */
export interface Footprint {
  /** The most since a `PeakWatch` began. */
  residentMegabytes: number;
  descriptors: number;
  /** Of the whole state folder. */
  diskMegabytes: number;
}

/** One queue, one worker with a simulated engine that generates as fast as its answers are read. */
export async function startTarget(): Promise<Target> {
  const queue = await startQueue({ port: await freePort() });
  const worker = await readyWorker(queue.url, 'target', {
    engineArgs: '--disable-uvicorn-access-log --max-num-seqs 64 --max-model-len 200000',
    env: { CASOLA_MAX_JOBS: '32', LOG_LEVEL: 'warn' },
  });
  return { queue, worker, pid: queue.process.pid };
}

/** All zero once the process has ended. */
export function footprintOf({ pid, queue }: Target): Footprint {
  if (!isAlive(pid)) return { residentMegabytes: 0, descriptors: 0, diskMegabytes: 0 };
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  return {
    residentMegabytes: Math.round(Number(/VmHWM:\s+(\d+)/.exec(status)?.[1]) / 1024),
    descriptors: readdirSync(`/proc/${pid}/fd`).length,
    diskMegabytes: Math.round(bytesUnder(queue.stateDir) / 1e5) / 10,
  };
}

export function isAlive(pid: number): boolean {
  return commandLine(pid) !== '';
}

/** Databases of objects in the state folder. */
export function databasesOf({ queue }: Target): number {
  const files = readdirSync(queue.stateDir, { recursive: true, encoding: 'utf8' });
  return files.filter((file) => file.endsWith('.sqlite')).length;
}

/** Keeps the highest of each figure while something goes on. */
export class PeakWatch {
  readonly #target: Target;
  readonly #timer: NodeJS.Timeout;
  #peak: Footprint;

  constructor(target: Target) {
    this.#target = target;
    forgetPeak(target.pid);
    this.#peak = footprintOf(target);
    this.#timer = setInterval(() => this.#look(), 100);
  }

  stop(): Footprint {
    clearInterval(this.#timer);
    this.#look();
    return this.#peak;
  }

  #look(): void {
    const now = footprintOf(this.#target);
    for (const figure of Object.keys(now) as (keyof Footprint)[]) {
      this.#peak[figure] = Math.max(this.#peak[figure], now[figure]);
    }
  }
}

/** The kernel then counts anew; where it may not be told to, the most is that since the process began. */
function forgetPeak(pid: number): void {
  try {
    writeFileSync(`/proc/${pid}/clear_refs`, '5');
  } catch {
    // Another user's process, or one that has ended.
  }
}

function bytesUnder(folder: string): number {
  let bytes = 0;
  for (const entry of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
    try {
      const stat = statSync(join(folder, entry));
      if (stat.isFile()) bytes += stat.size;
    } catch {
      // Removed meanwhile.
    }
  }
  return bytes;
}
