import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { freshDashboard } from '../dashboard.ts';

/** The page that `npm run build` puts beside the programs; there is none in `src/`. */
const BUILT = fileURLToPath(new URL('./dashboard.bin', import.meta.url));

/** Reads the page's files as one archive: the built one, or else one made from the sources. */
export async function readPage(): Promise<ArrayBuffer> {
  const page = await readFile(existsSync(BUILT) ? BUILT : (await freshDashboard()).path);
  return page.buffer.slice(page.byteOffset, page.byteOffset + page.byteLength);
}
