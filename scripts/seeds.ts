import type { Violation } from '../test/simulation/oracle.ts';

/** What every simulation takes from its command line, for `parseArgs`. @param count of seeds, unless it is told */
export function seedOptions(count: number) {
  return {
    seeds: { type: 'string', default: String(count) },
    'first-seed': { type: 'string', default: '1' },
    /** Everything that happens, of every seed. */
    events: { type: 'boolean', default: false },
    /** One line for programs: the promise that was broken and the seeds it took. */
    json: { type: 'boolean', default: false },
  } as const;
}

export interface Seeds {
  count: number;
  first: number;
  events: boolean;
  json: boolean;
}

interface SeedValues {
  seeds: string;
  'first-seed': string;
  events: boolean;
  json: boolean;
}

/** Ends the process with 64 where the numbers make no sense. */
export function readSeeds({ seeds, 'first-seed': firstSeed, events, json }: SeedValues): Seeds {
  const [count, first] = [Number(seeds), Number(firstSeed)];
  if (!(count >= 1) || !Number.isInteger(first)) {
    console.error('--seeds: expected a number from 1; --first-seed: expected a whole number');
    process.exit(64);
  }
  return { count, first, events, json };
}

/** What came of one seed. */
interface SeedRun {
  violation: Violation | null;
  /** What happened, in order. */
  lines: readonly string[];
}

export interface Simulation<Run extends SeedRun> {
  /** As `npm run` knows it. */
  script: string;
  run(seed: number): Run | Promise<Run>;
  /** What the seeds came to, for the line that says that every promise was kept. */
  sum(): string;
  /** Tells a person of a broken promise. Left out: in two lines, with the command that shows what happened. */
  report?(seed: number, result: Run): Promise<void>;
}

/** Runs one seed after the other; at the first that breaks a promise it says so and ends the process with 1. */
export async function runSeeds<Run extends SeedRun>(
  { count, first, events, json }: Seeds,
  { script, run, sum, report }: Simulation<Run>,
): Promise<void> {
  for (let seed = first; seed < first + count; seed++) {
    const result = await run(seed);
    if (events) console.log(`seed ${seed}\n${result.lines.join('\n')}`);
    if (!result.violation) continue;
    const { promise, message } = result.violation;
    if (json) console.log(JSON.stringify({ seeds: seed - first + 1, promise, message }));
    else if (report) await report(seed, result);
    else {
      console.log(`seed ${seed}: ${promise}: ${message}`);
      console.log(`again: npm run ${script} -- --seeds 1 --first-seed ${seed} --events`);
    }
    process.exit(1);
  }
  console.log(json ? JSON.stringify({ seeds: count, promise: null }) : `${sum()}: every promise kept`);
}
