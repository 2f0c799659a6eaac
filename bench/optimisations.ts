import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { commandLine, wholeFrom } from '../scripts/command-line.ts';
import { OPTIMISATIONS } from '../src/protocol/optimisations.ts';
import { comparePairs, LOADS, ratioText } from './compare/pairs.ts';
import { machineState, noiseSince } from './machine.ts';
import { noiseText } from './report.ts';

/**
 * `node bench/optimisations.ts`: what each optimisation is worth. A copy of this checkout has it off, and both roads
 * take turns: a ratio below 1 is what is saved by having it on.
 */

type Name = keyof typeof OPTIMISATIONS;

/** Loads that an optimisation can show in, by words of their names. */
const SHOWS_IN: Record<Name, string[]> = {
  gatherFrames: ['short', 'stored'],
  skipMasks: ['short', 'streams'],
  joinPieces: ['streams'],
  wholeAnswers: ['short'],
  keepRows: ['stored'],
};
/** What a copy of the checkout does without, or is linked to. */
const NOT_COPIED = new Set(['.git', 'node_modules', 'dist', '.worker-vllm', 'bench/.peers']);
const SWITCHES = 'src/protocol/optimisations.ts';

const names = Object.keys(OPTIMISATIONS) as Name[];
const given = commandLine(
  'node bench/optimisations.ts',
  'measures what each optimisation saves, by turning it off in a copy of this checkout',
)
  .option('--rounds <count>', 'pairs of both', wholeFrom(1), 30)
  .option('--only <names>', `of ${names.join(', ')}`)
  .parse();
const { rounds, only = names.join(',') } = given.opts<{ rounds: number; only?: string }>();

const before = machineState();
const own = fileURLToPath(new URL('..', import.meta.url));
for (const name of names.filter((name) => only.split(',').includes(name))) await measure(name);
process.stdout.write(`${noiseText(noiseSince(before))}\n`);

async function measure(name: Name): Promise<void> {
  const copy = mkdtempSync(join(tmpdir(), 'without-'));
  try {
    cpSync(own, copy, { recursive: true, filter: (path) => !NOT_COPIED.has(relative(own, path)) });
    symlinkSync(join(own, 'node_modules'), join(copy, 'node_modules'));
    turnOff(name, join(copy, SWITCHES));
    process.stdout.write(`\n${name}\n`);
    const loads = LOADS.filter((load) => SHOWS_IN[name].some((words) => load.name.includes(words)));
    for await (const ratios of comparePairs(copy, own, rounds, loads)) {
      process.stdout.write(
        `  ${ratios[0]!.load}\n${ratios.map((ratio) => `  ${ratioText(ratio)}\n`).join('')}`,
      );
    }
  } finally {
    rmSync(copy, { recursive: true, force: true });
  }
}

function turnOff(name: Name, path: string): void {
  const text = readFileSync(path, 'utf8');
  const off = text.replace(`${name}: true`, `${name}: false`);
  if (off === text) throw new Error(`${name} is not on in ${SWITCHES}`);
  writeFileSync(path, off);
}
