import type { Command } from 'commander';
import type { Violation } from '../test/simulation/oracle.ts';
import { commandLine, wholeFrom } from './command-line.ts';

/** The command line of a simulation. @param call as of `commandLine` @param count of seeds, unless it is told */
export function simulationLine(call: string, description: string, count: number): Command {
  return commandLine(call, description)
    .option('--seeds <count>', 'seeds to run', wholeFrom(1), count)
    .option('--first-seed <number>', 'the first of them', wholeFrom(0), 1)
    .option('--events', 'prints everything that happens, of every seed')
    .option('--json', 'prints a line for programs: the promise that was broken, and the seeds it took');
}

/** The seeds that the program was given. */
export interface Seeds {
  seeds: number;
  firstSeed: number;
  events?: true;
  json?: true;
}

/** The outcome of one seed. */
interface SeedRun {
  violation: Violation | null;
  /** The events, in order. */
  lines: readonly string[];
}

export interface Simulation<Run extends SeedRun> {
  /** As of `commandLine`. */
  call: string;
  run(seed: number): Run | Promise<Run>;
  /** Returns the sum of the seeds, for the line that says that every promise was kept. */
  sum(): string;
  /** Tells a person of a broken promise. Left out: in two lines, with the command that shows what happened. */
  report?(seed: number, result: Run): Promise<void>;
}

/** Runs one seed after the other; at the first that breaks a promise it says so and ends the process with 1. */
export async function runSeeds<Run extends SeedRun>(
  { seeds, firstSeed, events, json }: Seeds,
  { call, run, sum, report }: Simulation<Run>,
): Promise<void> {
  for (let seed = firstSeed; seed < firstSeed + seeds; seed++) {
    const result = await run(seed);
    if (events) console.log(`seed ${seed}\n${result.lines.join('\n')}`);
    if (!result.violation) continue;
    const { promise, message } = result.violation;
    if (json) console.log(JSON.stringify({ seeds: seed - firstSeed + 1, promise, message }));
    else if (report) await report(seed, result);
    else {
      console.log(`seed ${seed}: ${promise}: ${message}`);
      console.log(`again: ${call} --seeds 1 --first-seed ${seed} --events`);
    }
    process.exit(1);
  }
  console.log(json ? JSON.stringify({ seeds, promise: null }) : `${sum()}: every promise kept`);
}
