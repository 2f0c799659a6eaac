import { commandLine, wholeFrom } from '../scripts/command-line.ts';
import { tearDown } from '../test/support/road.ts';
import type { Effort } from './effort.ts';
import { machineState, noiseSince } from './machine.ts';
import { type Figure, noiseText, printFigure, saveResults } from './report.ts';
import { type BenchRoad, startRoad, warmUp } from './road.ts';
import { batchesOfSimulator, batchesOfVllm, memoryOfBatch } from './scenarios/batches.ts';
import { untilItBends } from './scenarios/bends.ts';
import { gapsBesideCommits } from './scenarios/beside-commits.ts';
import { dispatchLatency } from './scenarios/dispatch-latency.ts';
import { durableJobs } from './scenarios/durable-jobs.ts';
import { firstToken } from './scenarios/first-token.ts';
import { gateways } from './scenarios/gateways.ts';
import { journal } from './scenarios/journal.ts';
import { keptRequests } from './scenarios/keeping.ts';
import { requestsUnderLimits } from './scenarios/limits.ts';
import { memory } from './scenarios/memory.ts';
import { firstRequests } from './scenarios/new-process.ts';
import { page } from './scenarios/page.ts';
import { peers } from './scenarios/peers.ts';
import { processorTime } from './scenarios/processor.ts';
import { realVllm } from './scenarios/real-vllm.ts';
import { sharing } from './scenarios/sharing.ts';
import { start } from './scenarios/start.ts';
import { pacedStreams } from './scenarios/streams.ts';

/** `npm run bench`: what the road costs over a direct call. docs/performance.md says how to read it. */

const given = commandLine(
  'npm run bench --',
  'measures the road against a direct call, in turns, everything on this machine',
)
  .option('--rounds <count>', 'pairs of direct and road', wholeFrom(1), 5)
  .option(
    '--only <groups>',
    'groups to measure, such as P1,P3; peers, bends, gateways, journal, keeping, page, batches and vllm run only when they are named',
  )
  .option('--save <name>', 'keeps the figures as bench/results/<name>.json')
  .option('--short', 'sees that everything runs, in about a minute; its figures mean nothing')
  .parse()
  .opts<{ rounds: number; only?: string; save?: string; short?: boolean }>();

/** The share of the requests and tokens of a whole run that a short one has. */
const SHORT_SHARE = 0.02;

const effort: Effort = given.short ? { rounds: 1, share: SHORT_SHARE } : { rounds: given.rounds, share: 1 };
const only = given.only?.split(',');

interface Scenario {
  groups: string[];
  /** Shares a road with the others that do; they stand first. */
  needsRoad?: boolean;
  onRequest?: boolean;
  /** The second only where it is needed. */
  run(effort: Effort, road: BenchRoad): Promise<Figure[]>;
}
const SCENARIOS: Scenario[] = [
  { groups: ['P1'], needsRoad: true, run: firstToken },
  { groups: ['P1'], needsRoad: true, run: pacedStreams },
  { groups: ['P1c'], needsRoad: true, run: processorTime },
  { groups: ['P2'], needsRoad: true, run: gapsBesideCommits },
  { groups: ['peers'], needsRoad: true, onRequest: true, run: peers },
  { groups: ['bends'], needsRoad: true, onRequest: true, run: untilItBends },
  { groups: ['gateways'], onRequest: true, run: gateways },
  { groups: ['P3'], run: durableJobs },
  { groups: ['P4'], run: firstRequests },
  { groups: ['P5'], run: memory },
  { groups: ['P6'], run: dispatchLatency },
  { groups: ['P7'], run: start },
  { groups: ['P8'], run: sharing },
  { groups: ['P8'], run: requestsUnderLimits },
  { groups: ['journal'], onRequest: true, run: journal },
  { groups: ['keeping'], onRequest: true, run: keptRequests },
  { groups: ['page'], onRequest: true, run: page },
  { groups: ['batches'], onRequest: true, run: batchesOfSimulator },
  { groups: ['batch-memory'], onRequest: true, run: memoryOfBatch },
  { groups: ['vllm-batches'], onRequest: true, run: batchesOfVllm },
  { groups: ['vllm'], onRequest: true, run: realVllm },
];

const isWanted = (group: string) => !only || only.includes(group);
const chosen = SCENARIOS.filter(({ groups, onRequest }) =>
  onRequest ? only?.some((group) => groups.includes(group)) : groups.some(isWanted),
);
const figures: Figure[] = [];
// What was started has groups of its own, which a Ctrl-C does not reach.
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => void tearDown().finally(() => process.exit(1)));
}
const began = machineState();
let road: BenchRoad | null = null;
try {
  for (const scenario of chosen) {
    if (!scenario.needsRoad && road) {
      await tearDown();
      road = null;
    }
    const before = machineState();
    if (scenario.needsRoad && !road) {
      road = await startRoad();
      await warmUp(road, effort);
    }
    const found = await scenario.run(effort, road as BenchRoad);
    const noise = noiseSince(before);
    const wanted = found.filter(({ group }) => isWanted(group)).map((figure) => ({ ...figure, noise }));
    for (const figure of wanted) printFigure(given.short ? { ...figure, goal: null } : figure);
    console.log(`     meanwhile ${noiseText(noise)}\n`);
    figures.push(...wanted);
  }
} finally {
  await tearDown();
}
const noise = noiseSince(began);
console.log(`Over the whole run ${noiseText(noise)}.`);
if (given.save) console.log(`Kept in ${saveResults(given.save, figures, noise)}`);
if (given.short) console.log(`bench: ${chosen.length} passed, 0 failed`);
