import { InvalidArgumentError } from 'commander';
import { ATTACKS } from '../test/abuse/attacks.ts';
import { abuse } from '../test/abuse/run.ts';
import { tearDown, tearDownOnSignals } from '../test/support/road.ts';
import { commandLine } from './command-line.ts';

/** `node scripts/abuse.ts`: slow, large, many, nested, idle and strange requests; ends with 1 if the queue suffered. */

const given = commandLine(
  'node scripts/abuse.ts',
  'mistreats a queue in every way callers can, with a well-behaved caller beside; ends by itself',
)
  .option('--short', 'the form that every test run includes')
  .option('--only <text>', 'attacks whose name contains this', named)
  .parse()
  .opts<{ short?: boolean; only?: string }>();

tearDownOnSignals();
const findings = await abuse(given.short ? 'short' : 'full', given.only ?? null, (line) => console.log(line));
await tearDown();
const faults = findings.flatMap((finding) => finding.faults);
console.log(`\n${findings.length} attacks, ${faults.length} faults`);
process.exit(faults.length === 0 ? 0 : 1);

function named(text: string): string {
  if (!ATTACKS.some(({ name }) => name.includes(text)))
    throw new InvalidArgumentError(`All: ${ATTACKS.map(({ name }) => name).join(', ')}.`);
  return text;
}
