import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { llmsText, publishedPages, readPage } from '../../../scripts/llms.ts';

const root = fileURLToPath(new URL('../../..', import.meta.url));

it('llms.txt is what "node scripts/llms.ts" makes of the documents', () => {
  expect(readPage('llms.txt')).toBe(llmsText(publishedPages(), readPage));
});

it('llms.txt has the form of llmstxt.org, and lists every page of the documents once, with a line about it', () => {
  const text = readPage('llms.txt');
  expect(text).toMatch(/^# worker-vllm\n\n> \S.*\n\n[^#\n].*\n\n## /);
  const lines = text
    .split('\n## ')
    .slice(1)
    .flatMap((section) => section.split('\n').slice(2));
  const links = lines
    .filter((line) => line !== '')
    .map((line) => /^- \[[^\]]+\]\(([^)]+)\): \S.*\.$/.exec(line)?.[1] ?? line);
  expect(links.toSorted()).toEqual(publishedPages());
  expect(links.filter((path) => !existsSync(join(root, path)))).toEqual([]);
});

it('llms.txt puts pages under the titles of the README, and others under "Optional"', () => {
  const documents: Record<string, string> = {
    'README.md':
      '# A\n\nIt runs a.js. It has more.\n\n## Read on\n\n- **To call it**: [x](docs/a.md#b), [y](src/c.md). **On B**: [z](docs/b.md).',
    'docs/a.md': '# Page a\n\n```\ncode.\n```\n\n| table |\n\nSee [**b**](b.md):\n\n- one.',
    'docs/b.md': '# Page b\n\nFirst\nline. Second.',
    'docs/c.md': '# Page c\n\n`c` is.',
  };
  expect(llmsText(['docs/a.md', 'docs/b.md', 'docs/c.md'], (path) => documents[path]!)).toBe(`# worker-vllm

> It runs a.js.

Links are relative to this file. A gateway that runs describes its own routes at \`/openapi.json\`.

## To call it

- [Page a](docs/a.md): See b.

## On B

- [Page b](docs/b.md): First line.

## Optional

- [Page c](docs/c.md): \`c\` is.
`);
});
