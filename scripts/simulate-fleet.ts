import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { compare, madeUpTrace, table } from '../test/fleet-simulation/comparison.ts';
import { frontierPicture } from '../test/fleet-simulation/frontier.ts';
import { readAzure } from '../test/fleet-simulation/trace.ts';

/**
 * The scaling rule in virtual time.
 * npm run simulate:fleet -- --compare [--trace FILE] [--picture]
 */
const { values } = parseArgs({
  options: {
    /** The rule against others: GPU hours, waits and launches. */
    compare: { type: 'boolean', default: false },
    /** Requests in Azure's format: TIMESTAMP,ContextTokens,GeneratedTokens. Left out: made up. */
    trace: { type: 'string' },
    /** Writes docs/images/scaling-frontier.svg. */
    picture: { type: 'boolean', default: false },
  },
});

const trace = values.trace ? readAzure(await readFile(values.trace, 'utf8')) : madeUpTrace();
if (values.compare) {
  console.log('GPU hours / p95 wait in s / p99 wait in s / launches; C: how many seconds a start takes\n');
  console.log(table(compare(trace)));
}
if (values.picture) {
  const path = join(import.meta.dirname, '..', 'docs', 'images', 'scaling-frontier.svg');
  await writeFile(path, frontierPicture(trace));
}
