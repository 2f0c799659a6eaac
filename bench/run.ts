import { Command } from 'commander';
import { tearDown } from '../test/support/road.ts';
import { busyProcessors, machineTicks } from './machine.ts';
import { type Figure, printFigure, saveResults } from './report.ts';
import { type BenchRoad, startRoad } from './road.ts';
import { dispatchLatency } from './scenarios/dispatch-latency.ts';
import { durableJobs } from './scenarios/durable-jobs.ts';
import { firstToken } from './scenarios/first-token.ts';
import { memory } from './scenarios/memory.ts';
import { requestCost } from './scenarios/request-cost.ts';
import { start } from './scenarios/start.ts';
import { fastStreams, pacedStreams } from './scenarios/streams.ts';

/** `npm run bench`: what the road costs over a direct call. docs/performance.md says how to read it. */

const given = new Command('bench')
  .description('measures the road against a direct call, in turns, everything on this machine')
  .option('--rounds <count>', 'pairs of direct and road', '5')
  .option('--only <groups>', 'goals to measure, such as P1,P3')
  .option('--save <name>', 'keeps the figures as bench/results/<name>.json')
  .option('--short', 'sees that everything runs: one round, no figures worth quoting')
  .parse()
  .opts<{ rounds: string; only?: string; save?: string; short?: boolean }>();

const rounds = given.short ? 1 : Number(given.rounds);
const only = given.only?.split(',');

type Scenario = { groups: string[]; needsRoad: boolean; run(road: BenchRoad): Promise<Figure[]> };
const SCENARIOS: Scenario[] = [
  { groups: ['P1'], needsRoad: true, run: (road) => firstToken(road, rounds) },
  { groups: ['P1', 'P1c'], needsRoad: true, run: (road) => pacedStreams(road, rounds) },
  { groups: ['P1c'], needsRoad: true, run: (road) => requestCost(road, rounds) },
  { groups: ['P2'], needsRoad: true, run: (road) => fastStreams(road, rounds) },
  { groups: ['P3'], needsRoad: false, run: () => durableJobs(rounds, given.short ?? false) },
  { groups: ['P5'], needsRoad: false, run: () => memory() },
  { groups: ['P6'], needsRoad: false, run: () => dispatchLatency(rounds, given.short ?? false) },
  { groups: ['P7'], needsRoad: false, run: () => start(rounds) },
];

const chosen = SCENARIOS.filter(({ groups }) => !only || groups.some((group) => only.includes(group)));
const figures: Figure[] = [];
const before = machineTicks();
try {
  for (const needsRoad of [true, false]) {
    const scenarios = chosen.filter((scenario) => scenario.needsRoad === needsRoad);
    const road = needsRoad && scenarios.length > 0 ? await startRoad() : null;
    for (const scenario of scenarios) {
      const found = await scenario.run(road as BenchRoad);
      const wanted = found.filter(({ group }) => !only || only.includes(group));
      for (const figure of wanted) printFigure(figure);
      figures.push(...wanted);
    }
    await tearDown();
  }
} finally {
  await tearDown();
}
const busy = busyProcessors(before, machineTicks());
console.log(`\n${busy.toFixed(2)} processors were busy on average, this run's own among them.`);
if (given.save) console.log(`Kept in ${saveResults(given.save, figures, busy)}`);
