import { InvalidArgumentError } from 'commander';
import { FAULT_KINDS, type FaultKind } from '../test/soak/faults.ts';
import { tableOf } from '../test/soak/figures.ts';
import { Soak } from '../test/soak/run.ts';
import { tearDownOnSignals } from '../test/support/road.ts';
import { commandLine, wholeFrom } from './command-line.ts';

/** `npm run soak`: real processes, real kills, a network that goes wrong; ends with 1 if anything was lost. */

const given = commandLine(
  'npm run soak --',
  'runs jobs through a real road while parts of it are killed and its network fails',
)
  .option('--jobs <count>', 'jobs to run', wholeFrom(1), 10_000)
  .option('--faults <count>', 'faults, spread evenly over the jobs', wholeFrom(0), 500)
  .option('--seed <number>', 'chooses the faults', wholeFrom(0), Date.now() % 1_000_000)
  .option(
    '--only <kinds>',
    `faults of these kinds alone, such as kill_queue,drain; all: ${FAULT_KINDS.join(', ')}`,
    kinds,
  )
  .option('--workers <count>', 'worker containers', wholeFrom(1), 4)
  .parse()
  .opts<{ jobs: number; faults: number; seed: number; workers: number; only?: FaultKind[] }>();

console.log(`soak: ${given.jobs} jobs, ${given.faults} faults, ${given.workers} workers, seed ${given.seed}`);
tearDownOnSignals();
const report = await Soak.run({ ...given, say: (line) => console.log(line) });
const { counts } = report;
for (const [what, found] of Object.entries(counts)) {
  for (const line of found.slice(0, 20)) console.log(`${what}: ${line}`);
  if (found.length > 20) console.log(`${what}: and ${found.length - 20} more`);
}
console.log(`\n${tableOf(report.figures)}\n`);
console.log(
  tableOf([
    ['lost', counts.lost.length],
    ['wrong answers', counts.wrongAnswers.length],
    ['large results wrong', counts.largeResultsWrong.length],
    ['streams wrong', counts.streamsWrong.length],
    ['lines of the batch wrong', counts.linesWrong.length],
    ['jobs of the endpoint wrong', counts.endpointWrong.length],
    ['webhooks wrong', counts.hooksWrong.length],
    ['settled twice', counts.settledTwice.length],
    ['attempts wrongly charged', counts.wronglyCharged.length],
    ['leftovers in tables, slots, engines and spools', counts.leftovers.length],
    ['processes left', counts.processesLeft.length],
  ]),
);
if (report.logs) console.log(`\nThe output of every process is in ${report.logs}`);
process.exit(report.logs === null ? 0 : 1);

function kinds(text: string): FaultKind[] {
  const named = text.split(',');
  const unknown = named.find((kind) => !FAULT_KINDS.includes(kind as FaultKind));
  if (unknown !== undefined) throw new InvalidArgumentError(`There is no fault "${unknown}".`);
  return named as FaultKind[];
}
