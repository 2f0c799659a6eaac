import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { WORLDS } from '../../../scripts/planted-worlds.ts';

const root = fileURLToPath(new URL('../../..', import.meta.url));

/** That they are found: npm run planted-bugs. */
it('every planted bug still has the line that it breaks, once in its file', async () => {
  const lost: string[] = [];
  for (const { name, file, line } of WORLDS.flatMap(({ bugs }) => bugs)) {
    const text = await readFile(join(root, file), 'utf8');
    const places = text.split(line).length - 1;
    if (places !== 1) lost.push(`${name}: its line is ${places} times in ${file}`);
  }
  expect(lost).toEqual([]);
});
