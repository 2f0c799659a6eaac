import { Command } from 'commander';
import { abuse } from '../test/abuse/run.ts';
import { tearDown, tearDownOnSignals } from '../test/support/road.ts';

/** `npm run abuse`: slow, large, many, nested, idle and strange requests; ends with 1 if the queue suffered. */

const given = new Command('abuse')
  .description(
    'mistreats a queue in every way callers can, with a well-behaved caller beside; ends by itself',
  )
  .option('--short', 'the form that every test run includes')
  .option('--only <text>', 'attacks whose name contains this')
  .parse()
  .opts<{ short?: boolean; only?: string }>();

tearDownOnSignals();
const findings = await abuse(given.short ? 'short' : 'full', given.only ?? null, (line) => console.log(line));
await tearDown();
const faults = findings.flatMap((finding) => finding.faults);
console.log(`\n${findings.length} attacks, ${faults.length} faults`);
process.exit(faults.length === 0 ? 0 : 1);
