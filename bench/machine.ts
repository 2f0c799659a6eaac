import { readdirSync, readFileSync } from 'node:fs';
import { cpus, loadavg } from 'node:os';

/** Processor time of a process with all its threads, ms: schedstat counts nanoseconds, stat only ticks of 10 ms. */
export function processorMs(pid: number): number {
  let nanoseconds = 0;
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    try {
      nanoseconds += Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ')[0]);
    } catch {
      // The thread ended meanwhile.
    }
  }
  return nanoseconds / 1e6;
}

/** Resident memory of a process, MB. */
export function residentMegabytes(pid: number): number {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024;
}

/** Processor time of the whole machine so far, in ticks. */
export interface Ticks {
  busy: number;
  all: number;
}

export function machineTicks(): Ticks {
  const fields = readFileSync('/proc/stat', 'utf8')
    .split('\n')[0]!
    .trim()
    .split(/\s+/)
    .slice(1, 9)
    .map(Number);
  const all = fields.reduce((a, b) => a + b, 0);
  return { busy: all - fields[3]! - fields[4]!, all };
}

/** How busy the machine was between two looks, in processors. Beside a percentile it says how far to trust it. */
export function busyProcessors(before: Ticks, after: Ticks): number {
  return ((after.busy - before.busy) / Math.max(1, after.all - before.all)) * cpus().length;
}

/** What figures are to be read with. */
export function machineFacts(): Record<string, string | number> {
  return {
    processors: cpus().length,
    model: cpus()[0]?.model ?? 'unknown',
    load_before: Number(loadavg()[0]!.toFixed(2)),
    node: process.version,
  };
}
