import { parseArgs } from 'node:util';
import { drawPlan } from '../test/simulation/plan.ts';
import { failureReport } from '../test/simulation/report.ts';
import { shrink } from '../test/simulation/shrink.ts';
import { type RunResult, simulate } from '../test/simulation/simulation.ts';
import { readSeeds, runSeeds, seedOptions } from './seeds.ts';

/**
 * Runs the simulation over many seeds and stops at the first that breaks a promise, with its trace.
 * npm run simulate -- [--seeds N] [--first-seed S] [--events] [--no-shrink]
 */
const { values } = parseArgs({
  options: { ...seedOptions(1000), 'no-shrink': { type: 'boolean', default: false } },
});
const seeds = readSeeds(values);
const startedAt = performance.now();
let steps = 0;
await runSeeds(seeds, {
  script: 'simulate',
  run: async (seed) => {
    const result = await simulate(drawPlan(seed));
    steps += result.steps;
    if (!result.violation && !seeds.json) tellProgress(seed - seeds.first + 1);
    return seeds.events ? { ...result, lines: [...result.lines, `hash ${result.hash}`] } : result;
  },
  sum: () => `\n${progress(seeds.count)}`,
  report,
});

function tellProgress(done: number): void {
  if (process.stdout.isTTY) process.stdout.write(`\r${progress(done)}`);
  else if (done % 1000 === 0) console.log(progress(done));
}

function progress(done: number): string {
  const seconds = (performance.now() - startedAt) / 1000;
  return `${done} of ${seeds.count} seeds, ${steps} events, ${(done / seconds).toFixed(1)} seeds/s`;
}

async function report(seed: number, result: RunResult): Promise<void> {
  const plan = drawPlan(seed);
  if (values['no-shrink']) {
    console.log(`\n${failureReport(plan, result)}`);
    return;
  }
  console.log(`\nseed ${seed} fails; shrinking ...`);
  const shrunk = await shrink(plan, result);
  console.log(`shrunk in ${shrunk.runs} runs`);
  console.log(failureReport(shrunk.plan, shrunk.result));
  console.log(`again, unshrunk: npm run simulate -- --seeds 1 --first-seed ${seed} --no-shrink`);
}
