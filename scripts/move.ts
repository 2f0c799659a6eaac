import { execFileSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join, posix } from 'node:path';
import { EXIT } from '../src/process/exit-codes.ts';
import { commandLine } from './command-line.ts';
import { Mentions } from './mentions.ts';

/**
 * Moves a file or a folder with all that names it: imports, paths in documents, configurations and comments. It stages
 * what it has done, so that one move may follow another, and refuses to touch changes that are not staged.
 */

const [from, to] = commandLine('npm run move --', 'moves a file or folder of src, test, scripts or bench')
  .argument('<old>', 'path from the root of the repository')
  .argument('<new>', 'its path after the move')
  .parse()
  .processedArgs.map((path: string) => posix.normalize(path).replace(/\/$/, '')) as [string, string];

const git = (...args: string[]) => execFileSync('git', args, { encoding: 'utf8', maxBuffer: 1e9 }).trim();
const lines = (text: string) => text.split('\n').filter((line) => line !== '');
process.chdir(git('rev-parse', '--show-toplevel'));

const files = lines(git('ls-files')).filter((file) => existsSync(file) && statSync(file).isFile());
const fault = faultOf();
if (fault) {
  console.error(`move: ${fault}`);
  process.exit(EXIT.configuration);
}
const mentions = new Mentions({ from, to }, files);
const changed = files.flatMap((file) => {
  const text = readFileSync(file, 'utf8');
  const isText = !text.includes('\0') && file !== 'package-lock.json';
  const after = isText ? mentions.rewrite(file, text) : text;
  return after === text ? [] : [{ file, after, count: linesThatDiffer(text, after) }];
});
const unstaged = lines(git('diff', '--name-only'));
const inTheWay = changed.find(({ file }) => unstaged.includes(file));
if (inTheWay) {
  console.error(
    `move: ${inTheWay.file} names ${from} and has changes that are not staged. Commit or stage them.`,
  );
  process.exit(EXIT.configuration);
}

mkdirSync(dirname(to), { recursive: true });
git('mv', from, to);
for (const { file, after } of changed) writeFileSync(mentions.moved(file), after);
removeIfEmpty(dirname(from));
const written = changed.map(({ file }) => mentions.moved(file));
const biome = 'node_modules/.bin/biome';
// The order of imports and the length of lines follow from the paths.
const formatted = written.filter((file) => /\.(?:[jt]sx?|jsonc?)$/.test(file));
if (existsSync(biome) && formatted.length > 0)
  execFileSync(biome, ['check', '--write', '--no-errors-on-unmatched', ...formatted], {
    stdio: ['ignore', 'ignore', 'ignore'],
  });
git('add', '--', ...written, to);
console.log(`${from} -> ${to}`);
for (const { file, count } of changed)
  console.log(`  ${mentions.moved(file)}: ${count} ${count === 1 ? 'line' : 'lines'}`);

/** Why nothing is moved, or undefined. */
function faultOf(): string | undefined {
  const outside = [from, to].find((path) => !/^(?:src|test|scripts|bench)\/./.test(path));
  if (outside) return `${outside} is not in src, test, scripts or bench.`;
  if (existsSync(to)) return `${to} is there already.`;
  if (to.startsWith(`${from}/`)) return `${to} would be within itself.`;
  if (!files.some((file) => file === from || file.startsWith(`${from}/`))) return `git knows no ${from}.`;
  const unknown = lines(git('ls-files', '--others', '--exclude-standard', '--', from))[0];
  if (unknown) return `${unknown} is new. Stage it first.`;
  const dirty = lines(git('diff', '--name-only', '--', from))[0];
  return dirty && `${dirty} has changes that are not staged. A commit moves or changes, never both.`;
}

function linesThatDiffer(before: string, after: string): number {
  const old = before.split('\n');
  return after.split('\n').filter((line, index) => line !== old[index]).length;
}

function removeIfEmpty(folder: string): void {
  if (!existsSync(folder) || readdirSync(folder).length > 0) return;
  rmdirSync(folder);
  removeIfEmpty(join(folder, '..'));
}
