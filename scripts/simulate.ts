import { parseArgs } from 'node:util';
import { drawPlan } from '../test/simulation/plan.ts';
import { failureReport } from '../test/simulation/report.ts';
import { shrink } from '../test/simulation/shrink.ts';
import { simulate } from '../test/simulation/simulation.ts';

/**
 * Runs the simulation over many seeds and stops at the first that breaks a promise, with its trace.
 * npm run simulate -- [--seeds N] [--first-seed S] [--trace] [--no-shrink]
 */
const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '1000' },
    'first-seed': { type: 'string', default: '1' },
    /** Every event of every seed. */
    trace: { type: 'boolean', default: false },
    'no-shrink': { type: 'boolean', default: false },
    /** One line for programs: the promise that was broken and the seeds it took. */
    json: { type: 'boolean', default: false },
  },
});
const seeds = Number(values.seeds);
const first = Number(values['first-seed']);
if (!(seeds >= 1) || !Number.isInteger(first)) {
  console.error('--seeds: expected a number from 1; --first-seed: expected a whole number');
  process.exit(64);
}

const startedAt = performance.now();
let steps = 0;
for (let seed = first; seed < first + seeds; seed++) {
  const plan = drawPlan(seed);
  const result = await simulate(plan);
  steps += result.steps;
  if (values.trace) console.log(`${result.lines.join('\n')}\nseed ${seed}: hash ${result.hash}`);
  if (result.violation) {
    if (values.json) console.log(JSON.stringify({ seeds: seed - first + 1, ...result.violation }));
    else await report(plan, result);
    process.exit(1);
  }
  const done = seed - first + 1;
  if (!values.json && process.stdout.isTTY) process.stdout.write(`\r${progress(done)}`);
  else if (!values.json && done % 1000 === 0) console.log(progress(done));
}
console.log(
  values.json ? JSON.stringify({ seeds, promise: null }) : `\n${progress(seeds)}: every promise kept`,
);

function progress(done: number): string {
  const seconds = (performance.now() - startedAt) / 1000;
  return `${done} of ${seeds} seeds, ${steps} events, ${(done / seconds).toFixed(1)} seeds/s`;
}

async function report(plan: ReturnType<typeof drawPlan>, result: Awaited<ReturnType<typeof simulate>>) {
  if (values['no-shrink']) {
    console.log(`\n${failureReport(plan, result)}`);
    return;
  }
  console.log(`\nseed ${plan.seed} fails; shrinking ...`);
  const shrunk = await shrink(plan, result);
  console.log(`shrunk in ${shrunk.runs} runs`);
  console.log(failureReport(shrunk.plan, shrunk.result));
  console.log(`again, unshrunk: npm run simulate -- --seeds 1 --first-seed ${plan.seed} --no-shrink`);
}
