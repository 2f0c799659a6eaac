import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';

/**
 * Counts what a reader of the sources meets: files and lines, files that exactly one other file imports, rows of the
 * table of rooms, npm scripts, pages of documentation.
 *
 *     node scripts/shape.ts               this checkout
 *     node scripts/shape.ts ../other      another checkout, for a comparison
 */

const checkout = resolve(process.argv[2] ?? join(import.meta.dirname, '..'));
const IMPORTED = /(?:\bfrom\s+|\bimport\s*\(\s*|\bimport\s+)'(\.{1,2}\/[^']+)'/g;

const source = sources('src');
const importers = new Map<string, Set<string>>();
for (const file of source) {
  for (const [, named] of readFileSync(file, 'utf8').matchAll(IMPORTED)) {
    const imported = join(dirname(file), named!);
    if (existsSync(imported)) importers.set(imported, (importers.get(imported) ?? new Set()).add(file));
  }
}
const single = [...importers].filter(([, from]) => from.size === 1);
const beside = single.filter(([file, from]) => dirname(file) === dirname([...from][0]!));
const rooms = readFileSync(join(checkout, 'docs/rooms.md'), 'utf8').match(/^\| `/gm)?.length ?? 0;
const { scripts } = JSON.parse(readFileSync(join(checkout, 'package.json'), 'utf8'));
const pages = readdirSync(join(checkout, 'docs')).filter((name) => name.endsWith('.md'));
const bytes = pages.reduce((sum, name) => sum + statSync(join(checkout, 'docs', name)).size, 0);

print('src', `${source.length} files, ${lines(source)} lines`);
print('test', `${sources('test').length} files, ${lines(sources('test'))} lines`);
print('files with one importer', `${single.length}, ${beside.length} of them beside it`);
print('rows of the table of rooms', rooms);
print('npm scripts', Object.keys(scripts).length);
print('pages in docs/', `${pages.length}, ${Math.round(bytes / 1000)} kB`);
for (const folder of new Set(
  source.map((file) => relative(checkout, file).split('/').slice(0, 2).join('/')),
)) {
  const within = source.filter((file) => relative(checkout, file).startsWith(`${folder}/`));
  if (within.length > 0) print(`  ${folder}`, `${within.length} files, ${lines(within)} lines`);
}

function sources(folder: string): string[] {
  const all = readdirSync(join(checkout, folder), { recursive: true, encoding: 'utf8' });
  return all.filter((name) => /\.tsx?$/.test(name)).map((name) => join(checkout, folder, name));
}

function lines(files: string[]): number {
  return files.reduce((sum, file) => sum + readFileSync(file, 'utf8').split('\n').length - 1, 0);
}

function print(what: string, value: number | string): void {
  console.log(`${what.padEnd(32)}${value}`);
}
