import { parseArgs } from 'node:util';
import { simulateRunpod } from '../test/runpod-simulation/world.ts';

/**
 * A worker in RunPod's endpoint and the platform in one virtual world, with faults; stops at the first seed that breaks
 * a promise.
 * npm run simulate:runpod -- [--seeds N] [--first-seed S] [--events]
 */
const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '500' },
    'first-seed': { type: 'string', default: '1' },
    /** Everything that happens, of every seed. */
    events: { type: 'boolean', default: false },
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
let gives = 0;
for (let seed = first; seed < first + seeds; seed++) {
  const result = await simulateRunpod(seed);
  gives += result.gives;
  if (values.events) console.log(`seed ${seed}\n${result.lines.join('\n')}`);
  if (!result.violation) continue;
  const { promise, message } = result.violation;
  if (values.json) console.log(JSON.stringify({ seeds: seed - first + 1, promise, message }));
  else {
    console.log(`seed ${seed}: ${promise}: ${message}`);
    console.log(`again: npm run simulate:runpod -- --seeds 1 --first-seed ${seed} --events`);
  }
  process.exit(1);
}
console.log(
  values.json
    ? JSON.stringify({ seeds, promise: null })
    : `${seeds} seeds, jobs given ${gives} times: every promise kept`,
);
