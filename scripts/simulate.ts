import { drawPlan } from '../test/simulation/plan.ts';
import { failureReport } from '../test/simulation/report.ts';
import { shrink } from '../test/simulation/shrink.ts';
import { type RunResult, simulate } from '../test/simulation/simulation.ts';
import { runSeeds, type Seeds, simulationLine } from './seeds.ts';

/** `npm run simulate` */

const given = simulationLine(
  'npm run simulate --',
  'runs the whole road in one virtual world, with faults; stops at the first seed that breaks a promise, with its trace',
  1000,
)
  .option('--no-shrink', 'leaves the plan of a seed that fails as it is')
  .parse()
  .opts<Seeds & { shrink: boolean }>();
const startedAt = performance.now();
let steps = 0;
await runSeeds(given, {
  call: 'npm run simulate --',
  run: async (seed) => {
    const result = await simulate(drawPlan(seed));
    steps += result.steps;
    if (!result.violation && !given.json) tellProgress(seed - given.firstSeed + 1);
    return given.events ? { ...result, lines: [...result.lines, `hash ${result.hash}`] } : result;
  },
  sum: () => `\n${progress(given.seeds)}`,
  report,
});

function tellProgress(done: number): void {
  if (process.stdout.isTTY) process.stdout.write(`\r${progress(done)}`);
  else if (done % 1000 === 0) console.log(progress(done));
}

function progress(done: number): string {
  const seconds = (performance.now() - startedAt) / 1000;
  return `${done} of ${given.seeds} seeds, ${steps} events, ${(done / seconds).toFixed(1)} seeds/s`;
}

async function report(seed: number, result: RunResult): Promise<void> {
  const plan = drawPlan(seed);
  if (!given.shrink) {
    console.log(`\n${failureReport(plan, result)}`);
    return;
  }
  console.log(`\nseed ${seed} fails; shrinking ...`);
  const shrunk = await shrink(plan, result);
  console.log(`shrunk in ${shrunk.runs} runs`);
  console.log(failureReport(shrunk.plan, shrunk.result));
  console.log(`again, unshrunk: npm run simulate -- --seeds 1 --first-seed ${seed} --no-shrink`);
}
