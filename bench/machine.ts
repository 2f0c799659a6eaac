import { readdirSync, readFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { childrenOf } from '../test/soak/proc.ts';

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

/** The same of several processes by name, since `before`. */
export function processorOf<Name extends string>(
  pids: Record<Name, number>,
  before?: Record<Name, number>,
): Record<Name, number> {
  const names = Object.keys(pids) as Name[];
  return Object.fromEntries(
    names.map((name) => [name, processorMs(pids[name]) - (before?.[name] ?? 0)]),
  ) as Record<Name, number>;
}

/** All processes below one, the nearest first. */
export function descendantsOf(pid: number): number[] {
  return childrenOf(pid).flatMap((child) => [child, ...descendantsOf(child)]);
}

/** Resident memory of a process, MB. */
export function residentMegabytes(pid: number): number {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024;
}

/** The whole machine at one moment. */
export interface MachineState {
  /** Processor time so far, in ticks. */
  busy: number;
  all: number;
  /** How long each process has waited for a processor so far, ns. */
  waited: Map<string, number>;
  at: number;
}

/** The load of the machine beside a figure: where all processors are busy, percentiles measure the machine. */
export interface Noise {
  /** On average, this run's own processes among them. */
  busy_processors: number;
  /** Processes that could run and waited for a processor, on average. */
  waiting: number;
}

export function machineState(): MachineState {
  const fields = readFileSync('/proc/stat', 'utf8')
    .split('\n')[0]!
    .trim()
    .split(/\s+/)
    .slice(1, 9)
    .map(Number);
  const all = fields.reduce((a, b) => a + b, 0);
  return { busy: all - fields[3]! - fields[4]!, all, waited: waitedOf(), at: performance.now() };
}

export function noiseSince(before: MachineState): Noise {
  const after = machineState();
  const busy = ((after.busy - before.busy) / Math.max(1, after.all - before.all)) * cpus().length;
  let waited = 0;
  for (const [pid, now] of after.waited) waited += Math.max(0, now - (before.waited.get(pid) ?? 0));
  const waiting = waited / 1e6 / Math.max(1, after.at - before.at);
  return { busy_processors: Number(busy.toFixed(2)), waiting: Number(waiting.toFixed(2)) };
}

/** Returns the waits of main threads, by process id: the second number of schedstat. */
function waitedOf(): Map<string, number> {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  return new Map(pids.map((pid) => [pid, waitedNanoseconds(pid)]));
}

function waitedNanoseconds(pid: string): number {
  try {
    return Number(readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')[1]);
  } catch {
    // It ended meanwhile.
    return 0;
  }
}

/** Returns the facts about the machine beside which figures are read. */
export function machineFacts() {
  return {
    processors: cpus().length,
    model: cpus()[0]?.model ?? 'unknown',
    node: process.version,
  };
}
