import { parseArgs } from 'node:util';
import { simulateSharing } from '../test/sharing-simulation/world.ts';

/**
 * Tenants with weights and limits over the rules of a queue, with faults; stops at the first seed that breaks a promise.
 * npm run simulate:sharing -- [--seeds N] [--first-seed S]
 */
const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '500' },
    'first-seed': { type: 'string', default: '1' },
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
let given = 0;
for (let seed = first; seed < first + seeds; seed++) {
  const result = simulateSharing(seed);
  given += result.given;
  if (!result.violation) continue;
  const { promise, message } = result.violation;
  if (values.json) console.log(JSON.stringify({ seeds: seed - first + 1, promise, message }));
  else {
    console.log(`${result.lines.join('\n')}\nseed ${seed}: ${promise}: ${message}`);
    console.log(`again: npm run simulate:sharing -- --seeds 1 --first-seed ${seed}`);
  }
  process.exit(1);
}
console.log(
  values.json
    ? JSON.stringify({ seeds, promise: null })
    : `${seeds} seeds, jobs given ${given} times: every promise kept`,
);
