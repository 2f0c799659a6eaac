import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { commandLine } from '../scripts/command-line.ts';
import { type Figure, format, noiseText, type Results, resultsFile } from './report.ts';
import { median } from './statistics.ts';

/** `node bench/table.ts NAME…` writes the figures of bench/results/NAME.json, of each name, into docs/performance.md. */

const DOCUMENT = fileURLToPath(new URL('../docs/performance.md', import.meta.url));
const [BEGIN, END] = ['<!-- figures: node bench/table.ts -->', '<!-- end of the figures -->'];

/** A figure of one of several systems: `nginx: processor a token`. */
const OF_SYSTEM = /^([^:]+): (.+)$/;

const { args: names } = commandLine(
  'node bench/table.ts',
  'writes the figures of runs that were kept by "npm run bench -- --save NAME" into docs/performance.md',
)
  .argument('<names...>', 'of the runs')
  .parse();
const runs = names.map((name) => JSON.parse(readFileSync(existing(name), 'utf8')) as Results);
const text = readFileSync(DOCUMENT, 'utf8');
const [before, rest] = text.split(BEGIN);
const after = rest?.split(END)[1];
if (after === undefined) throw new Error(`docs/performance.md has no place between ${BEGIN} and ${END}`);
writeFileSync(DOCUMENT, `${before}${BEGIN}\n${runs.map(textOf).join('\n\n')}\n${END}${after}`);

function existing(name: string): string {
  const file = resultsFile(name);
  if (existsSync(file)) return file;
  console.error(`There is no ${file}: npm run bench -- --save ${name}`);
  process.exit(1);
}

function textOf({ at, machine, figures }: Results): string {
  const head = `Measured ${at.slice(0, 10)} on ${machine.processors} cores (${machine.model}), Node ${machine.node}; over the whole run ${noiseText(machine)}.`;
  const ofSystems = figures.filter(isOfSystem);
  const others = figures.filter((figure) => !isOfSystem(figure));
  const tables = [
    others.length > 0 ? [tableOf(others)] : [],
    ofSystems.length > 0 ? [systemsOf(ofSystems)] : [],
  ];
  return [head, ...tables.flat()].join('\n\n');
}

function isOfSystem({ name, goal }: Figure): boolean {
  return goal === null && OF_SYSTEM.test(name);
}

/** Returns a table with a row for each system and a column for each figure. */
function systemsOf(rows: Figure[]): string {
  const cells = rows.map(({ name, unit, rounds }) => {
    const [, system, figure] = OF_SYSTEM.exec(name)!;
    return { system, figure, value: `${format(median(rounds))} ${unit}` };
  });
  const figures = [...new Set(cells.map(({ figure }) => figure))];
  const systems = [...new Set(cells.map(({ system }) => system))];
  const lines = systems.map((system) => {
    const values = figures.map(
      (figure) => cells.find((cell) => cell.system === system && cell.figure === figure)?.value ?? '',
    );
    return `| ${system} | ${values.join(' | ')} |`;
  });
  return [`| | ${figures.join(' | ')} |`, `| --- |${' --- |'.repeat(figures.length)}`, ...lines].join('\n');
}

function tableOf(rows: Figure[]): string {
  const head =
    '| | | goal | median | lowest to highest | processors busy, processes waiting |\n| --- | --- | --- | --- | --- | --- |';
  return [head, ...rows.map((row, index) => rowOf(row, rows[index - 1]))].join('\n');
}

/** Returns a row; its last cell is empty where it says what that of the row before says. */
function rowOf(
  { group, name, unit, goal, atLeast, rounds, noise }: Figure,
  before: Figure | undefined,
): string {
  const middle = median(rounds);
  const isMet = goal === null || (atLeast ? middle >= goal : middle <= goal);
  const wanted = goal === null ? '' : `${atLeast ? '≥' : '≤'} ${goal}`;
  const value = `${format(middle)} ${unit}`;
  const range = rounds.length > 1 ? `${format(Math.min(...rounds))} to ${format(Math.max(...rounds))}` : '';
  const meanwhile = meanwhileOf(noise);
  const news = before && meanwhileOf(before.noise) === meanwhile ? '' : meanwhile;
  return `| ${group} | ${name} | ${wanted} | ${isMet ? value : `**${value}**`} | ${range} | ${news} |`;
}

function meanwhileOf(noise: Figure['noise']): string {
  return noise ? `${noise.busy_processors}, ${noise.waiting}` : '';
}
