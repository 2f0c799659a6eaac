import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

/** Every file that the documents name is there, and so is every heading that they link to. */
const root = fileURLToPath(new URL('../../..', import.meta.url));
// New files count before they are committed, deleted ones no more.
const files = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], {
  cwd: root,
  encoding: 'utf8',
})
  .trim()
  .split('\n');
const documents = files.filter((file) => file.endsWith('.md'));

/** Each path with the folders above it. */
const paths = new Set(
  files.flatMap((file) => file.split('/').map((_, index, parts) => parts.slice(0, index + 1).join('/'))),
);
const names = new Set(files.map((file) => file.split('/').at(-1)));

const isThere = (path: string) => paths.has(path) || paths.has(`src/${path}`);
const TOP = /^(?:src|test|scripts|bench|docs|deploy|bin)\//;

/** Names of files and folders in backticks, as they are written. */
function namedIn(text: string): string[] {
  const plain = text.replaceAll(/^```[\s\S]*?^```/gm, '');
  const inTicks = [...plain.matchAll(/`([^`\n]+)`/g)].map((match) => match[1]!);
  // `src/<name>.ts` and `NAME.ts` stand for any file, `*.ts` for many.
  return inTicks.filter((name) => /^[\w./-]+$/.test(name) && !/\bNAME\b|^\//.test(name));
}

function missing(text: string): string[] {
  return namedIn(text).filter((name) => {
    const path = name.replace(/^\.\//, '').replace(/\/$/, '');
    if (/\.(?:ts|js|py|md|sh|jsonc|hcl)$/.test(path))
      return !isThere(path) && !(names.has(path) && !/\//.test(path));
    return TOP.test(path) && !isThere(path) && !isThere(`${path}.ts`) && !isThere(`${path}.test.ts`);
  });
}

/** As GitHub makes it of a heading. */
const anchorOf = (heading: string) =>
  heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
    .replaceAll(' ', '-');

function brokenLinks(document: string, text: string): string[] {
  const links = [...text.matchAll(/\]\(([^)\s]+)\)/g)].map((match) => match[1]!);
  return links.filter((link) => {
    if (/^[a-z]+:/.test(link)) return false;
    const [path = '', anchor] = link.split('#');
    const target = path === '' ? document : normalize(join(dirname(document), path)).replace(/\/$/, '');
    if (!paths.has(target)) return true;
    if (anchor === undefined) return false;
    const headings = readFileSync(join(root, target), 'utf8').matchAll(/^#+ (.*)$/gm);
    return ![...headings].some((heading) => anchorOf(heading[1]!) === anchor);
  });
}

describe.each(documents)('%s', (document) => {
  const text = readFileSync(join(root, document), 'utf8');

  it('names only files that exist', () => {
    expect(missing(text)).toEqual([]);
  });

  it('links only to what exists', () => {
    expect(brokenLinks(document, text)).toEqual([]);
  });
});

/** Comments may leave out the folders above a file: `state/worker.ts`. */
const isEndOfPath = (name: string) => files.some((file) => `/${file}`.endsWith(`/${name}`));

it('has only comments that name files that exist', () => {
  const sources = files.filter((file) => /^(?:src|scripts|bench)\/.*\.tsx?$/.test(file));
  const stale = sources.flatMap((source) => {
    const comments =
      readFileSync(join(root, source), 'utf8').match(/\/\*[\s\S]*?\*\/|(?<=^|\s)\/\/ .*$/gm) ?? [];
    const named = comments.flatMap((comment) => comment.match(/[\w./-]*\w\.tsx?\b/g) ?? []);
    return named
      .filter((name) => !isEndOfPath(name.replace(/^(?:\.\.?\/)+/, '')))
      .map((name) => `${source}: ${name}`);
  });
  expect(stale).toEqual([]);
});

it('shows every picture in a document', () => {
  const linked = documents.flatMap((document) =>
    [...readFileSync(join(root, document), 'utf8').matchAll(/\]\(([^)\s]+\.(?:png|jpg|svg))\)/g)].map(
      ([, path]) => normalize(join(dirname(document), path!)),
    ),
  );
  const pictures = files.filter((file) => /\.(?:png|jpg|svg)$/.test(file));
  expect(pictures.filter((picture) => !linked.includes(picture))).toEqual([]);
});
