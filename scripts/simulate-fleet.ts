import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { compare, madeUpTrace, table } from '../test/fleet-simulation/comparison.ts';
import { frontierPicture } from '../test/fleet-simulation/frontier.ts';
import { drawPlan } from '../test/fleet-simulation/plan.ts';
import { readAzure } from '../test/fleet-simulation/trace.ts';
import { simulateFleet } from '../test/fleet-simulation/world.ts';

/**
 * Scheduler, launcher and providers in one virtual world, with faults; stops at the first seed that breaks a promise.
 * npm run simulate:fleet -- [--seeds N] [--first-seed S] [--events]
 *
 * The scaling rule against others, over a trace of requests.
 * npm run simulate:fleet -- --compare [--trace FILE] [--picture]
 */
const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '50' },
    'first-seed': { type: 'string', default: '1' },
    /** Everything that happens, of every seed. */
    events: { type: 'boolean', default: false },
    /** One line for programs: the promise that was broken and the seeds it took. */
    json: { type: 'boolean', default: false },
    /** The rule against others: GPU hours, waits and launches. */
    compare: { type: 'boolean', default: false },
    /** Requests in Azure's format: TIMESTAMP,ContextTokens,GeneratedTokens. Left out: made up. */
    trace: { type: 'string' },
    /** Writes docs/images/scaling-frontier.svg. */
    picture: { type: 'boolean', default: false },
  },
});

if (values.compare || values.picture) await compareRules();
else await runSeeds();

async function compareRules(): Promise<void> {
  const trace = values.trace ? readAzure(await readFile(values.trace, 'utf8')) : madeUpTrace();
  if (values.compare) {
    console.log('GPU hours / p95 wait in s / p99 wait in s / launches; C: how many seconds a start takes\n');
    console.log(table(compare(trace)));
  }
  if (!values.picture) return;
  const path = join(import.meta.dirname, '..', 'docs', 'images', 'scaling-frontier.svg');
  await writeFile(path, frontierPicture(trace));
}

async function runSeeds(): Promise<void> {
  const seeds = Number(values.seeds);
  const first = Number(values['first-seed']);
  if (!(seeds >= 1) || !Number.isInteger(first)) {
    console.error('--seeds: expected a number from 1; --first-seed: expected a whole number');
    process.exit(64);
  }
  let launches = 0;
  for (let seed = first; seed < first + seeds; seed++) {
    const result = await simulateFleet(drawPlan(seed));
    launches += result.launches;
    if (values.events) console.log(`seed ${seed}\n${result.lines.join('\n')}`);
    if (!result.violation) continue;
    if (values.json) console.log(JSON.stringify({ seeds: seed - first + 1, ...result.violation }));
    else {
      console.log(`seed ${seed}: ${result.violation.promise}: ${result.violation.message}`);
      console.log(`again: npm run simulate:fleet -- --seeds 1 --first-seed ${seed} --events`);
    }
    process.exit(1);
  }
  console.log(
    values.json
      ? JSON.stringify({ seeds, promise: null })
      : `${seeds} seeds, ${launches} launches: every promise kept`,
  );
}
