import { globSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/**
 * `node scripts/llms.ts` writes llms.txt: the pages of the documents, each with a line about it, for programs that read
 * them (https://llmstxt.org). "Read on" of the README gives the sections and their order; each page's own first sentence
 * is the line about it.
 */
const ROOT = fileURLToPath(new URL('..', import.meta.url));

/**
 * Returns the text of llms.txt.
 * @param pages paths of all documents, from the root of the checkout; a page that the README does not link to comes
 *   under "Optional", which a reader with little room leaves out
 * @param read returns a document's text
 */
export function llmsText(pages: readonly string[], read: (path: string) => string): string {
  const readme = read('README.md');
  const sections = sectionsOf(readme).map(({ title, paths }) => ({
    title,
    paths: paths.filter((path) => pages.includes(path)),
  }));
  const listed = new Set(sections.flatMap(({ paths }) => paths));
  sections.push({ title: 'Optional', paths: pages.filter((path) => !listed.has(path)) });
  const lineOf = (path: string) => {
    const text = read(path);
    return `- [${titleOf(text)}](${path}): ${firstSentence(text)}`;
  };
  const lists = sections
    .filter(({ paths }) => paths.length > 0)
    .map(({ title, paths }) => `## ${title}\n\n${paths.map(lineOf).join('\n')}`);
  const intro =
    'Links are relative to this file. A gateway that runs describes its own routes at `/openapi.json`.';
  return `${['# worker-vllm', `> ${firstSentence(readme)}`, intro, ...lists].join('\n\n')}\n`;
}

/** Returns what "Read on" lists: a title in bold type stands before each group of links. */
function sectionsOf(readme: string): { title: string; paths: string[] }[] {
  const [, list = ''] = readme.split(/^## Read on$/m);
  return [...list.matchAll(/\*\*([^*]+)\*\*:([\s\S]*?)(?=\*\*|$)/g)].map(([, title, group]) => ({
    title: title!,
    paths: [...group!.matchAll(/\]\(([^)#]+\.md)/g)].map(([, path]) => path!),
  }));
}

function titleOf(text: string): string {
  return /^# (.*)$/m.exec(text)?.[1] ?? '';
}

/** Returns the first sentence of a document's first paragraph of prose, without links and bold type. */
function firstSentence(text: string): string {
  const paragraphs = text.replaceAll(/^```[\s\S]*?^```$/gm, '').split(/\n{2,}/);
  const prose = paragraphs.find((paragraph) => /^[\p{L}`[]/u.test(paragraph)) ?? '';
  const plain = prose
    .replaceAll('\n', ' ')
    .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replaceAll('**', '');
  // The full stop of a file's name is none, so a sentence ends before a capital, a digit or code.
  const [sentence = plain] = /^.*?\.(?= [\p{Lu}\d`])/u.exec(plain) ?? [];
  return sentence.replace(/:$/, '.');
}

/** Returns the paths of all pages that are published, from the root of the checkout. */
export function publishedPages(): string[] {
  return globSync(['CHANGELOG.md', 'docs/*.md', 'docs/decisions/*.md'], { cwd: ROOT }).sort();
}

export function readPage(path: string): string {
  return readFileSync(join(ROOT, path), 'utf8');
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  writeFileSync(join(ROOT, 'llms.txt'), llmsText(publishedPages(), readPage));
}
