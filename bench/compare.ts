import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { commandLine, wholeFrom } from '../scripts/command-line.ts';
import { comparePairs, LOADS, ratioText } from './compare/pairs.ts';
import { machineState, noiseSince } from './machine.ts';
import { noiseText } from './report.ts';

/** `node bench/compare.ts ../other`: whether this checkout became dearer or cheaper than another one. */

const given = commandLine(
  'node bench/compare.ts',
  'measures this checkout against another one, in turns on the same machine',
)
  .argument('<other>', 'another checkout, with its node_modules')
  .option('--rounds <count>', 'pairs of both', wholeFrom(1), 30)
  .option('--only <words>', 'loads whose name has these words')
  .parse();
const { rounds, only = '' } = given.opts<{ rounds: number; only?: string }>();

const before = machineState();
const own = fileURLToPath(new URL('..', import.meta.url));
const loads = LOADS.filter(({ name }) => name.includes(only));
for await (const ratios of comparePairs(resolve(given.args[0]!), own, rounds, loads)) {
  process.stdout.write(`\n${ratios[0]!.load}\n${ratios.map((ratio) => `${ratioText(ratio)}\n`).join('')}`);
}
process.stdout.write(`${noiseText(noiseSince(before))}\n`);
