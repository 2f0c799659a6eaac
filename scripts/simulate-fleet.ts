import { type ChildProcess, fork } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { compare, madeUpTrace, table } from '../test/fleet-simulation/comparison.ts';
import { frontierPicture } from '../test/fleet-simulation/frontier.ts';
import { drawPlan } from '../test/fleet-simulation/plan.ts';
import { readAzure } from '../test/fleet-simulation/trace.ts';
import { type FleetResult, simulateFleet } from '../test/fleet-simulation/world.ts';
import { existingFile } from './command-line.ts';
import { runSeeds, type Seeds, simulationLine } from './seeds.ts';

/** `node scripts/simulate-fleet.ts`: seeds run side by side, in a process for each processor. */

const given = simulationLine(
  'node scripts/simulate-fleet.ts',
  'runs queue, scheduler, launcher and providers in one virtual world, with faults; stops at the first seed that breaks a promise',
  50,
)
  .option('--compare', 'instead, the scaling rule against others: GPU hours, waits and launches')
  .option(
    '--trace <file>',
    "requests for that, in Azure's format: TIMESTAMP,ContextTokens,GeneratedTokens; else made up",
    existingFile,
  )
  .option('--picture', 'draws that, as docs/images/scaling-frontier.svg')
  .parse()
  .opts<Seeds & { compare?: true; trace?: string; picture?: true }>();

/** The result of one seed, as the process that ran it tells it. */
type Told = Pick<FleetResult, 'violation' | 'lines' | 'launches'>;

if (process.send) runAsTold();
else if (given.compare || given.picture) await compareRules();
else await runInProcesses();

async function compareRules(): Promise<void> {
  const trace = given.trace ? readAzure(await readFile(given.trace, 'utf8')) : madeUpTrace();
  if (given.compare) {
    console.log('GPU hours / p95 wait in s / p99 wait in s / launches; C: how many seconds a start takes\n');
    console.log(table(compare(trace)));
  }
  if (!given.picture) return;
  const path = join(import.meta.dirname, '..', 'docs', 'images', 'scaling-frontier.svg');
  await writeFile(path, frontierPicture(trace));
}

async function runInProcesses(): Promise<void> {
  const results = await inProcesses(given.firstSeed, given.seeds);
  const launches = [...results.values()].reduce((sum, result) => sum + result.launches, 0);
  await runSeeds(given, {
    call: 'node scripts/simulate-fleet.ts',
    run: (seed) => results.get(seed)!,
    sum: () => `${given.seeds} seeds, ${launches} launches`,
  });
}

/** Returns the result of each seed, up to the first that breaks a promise, and perhaps of some after it. */
async function inProcesses(first: number, seeds: number): Promise<Map<number, Told>> {
  const results = new Map<number, Told>();
  let next = first;
  let end = first + seeds;
  const work = async (child: ChildProcess) => {
    while (next < end) {
      const seed = next++;
      const told = await ask(child, seed);
      results.set(seed, told);
      if (told.violation) end = Math.min(end, seed);
    }
    child.disconnect();
  };
  const processes = Math.min(seeds, availableParallelism());
  await Promise.all(
    Array.from({ length: processes }, () => work(fork(import.meta.filename, process.argv.slice(2)))),
  );
  return results;
}

/** @throws Error when the process ends without an answer */
function ask(child: ChildProcess, seed: number): Promise<Told> {
  return new Promise((resolve, reject) => {
    const ended = (code: number | null) => reject(new Error(`seed ${seed}: its process ended (${code})`));
    child.once('exit', ended);
    child.once('message', (told) => {
      child.off('exit', ended);
      resolve(told as Told);
    });
    child.send(seed);
  });
}

/** A process of `inProcesses`: it ends when its parent disconnects. */
function runAsTold(): void {
  process.on('message', async (seed: number) => {
    const { violation, lines, launches } = await simulateFleet(drawPlan(seed));
    const told: Told = { violation, lines: given.events ? lines : [], launches };
    process.send?.(told);
  });
}
