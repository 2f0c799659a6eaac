import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { type Figure, format, noiseText, type Results, resultsFile } from './report.ts';
import { median } from './statistics.ts';

/** `npm run bench:table -- NAME` writes the figures of bench/results/NAME.json into docs/performance.md. */

const DOCUMENT = fileURLToPath(new URL('../docs/performance.md', import.meta.url));
const [BEGIN, END] = ['<!-- figures: npm run bench:table -->', '<!-- end of the figures -->'];

const name = process.argv[2];
if (!name) throw new Error('usage: npm run bench:table -- NAME (of bench/results/NAME.json)');
const { at, machine, figures } = JSON.parse(readFileSync(resultsFile(name), 'utf8')) as Results;
const text = readFileSync(DOCUMENT, 'utf8');
const [before, rest] = text.split(BEGIN);
const after = rest?.split(END)[1];
if (after === undefined) throw new Error(`docs/performance.md has no place between ${BEGIN} and ${END}`);
const head = `Measured ${at.slice(0, 10)} on ${machine.processors} cores (${machine.model}), Node ${machine.node}; over the whole run ${noiseText(machine)}.`;
writeFileSync(DOCUMENT, `${before}${BEGIN}\n${head}\n\n${tableOf(figures)}\n${END}${after}`);

function tableOf(rows: Figure[]): string {
  const head =
    '| | | goal | median | lowest to highest | processors busy, processes waiting |\n| --- | --- | --- | --- | --- | --- |';
  return [head, ...rows.map(rowOf)].join('\n');
}

function rowOf({ group, name, unit, goal, atLeast, rounds, noise }: Figure): string {
  const middle = median(rounds);
  const isMet = goal === null || (atLeast ? middle >= goal : middle <= goal);
  const wanted = goal === null ? '' : `${atLeast ? '≥' : '≤'} ${goal}`;
  const value = `${format(middle)} ${unit}`;
  const range = rounds.length > 1 ? `${format(Math.min(...rounds))} to ${format(Math.max(...rounds))}` : '';
  const meanwhile = noise ? `${noise.busy_processors}, ${noise.waiting}` : '';
  return `| ${group} | ${name} | ${wanted} | ${isMet ? value : `**${value}**`} | ${range} | ${meanwhile} |`;
}
