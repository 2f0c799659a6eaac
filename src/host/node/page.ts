import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { freshDashboard } from '../dashboard.ts';

/** Beside the programs that `npm run build` makes; there is none in `src/`. */
const BUILT = fileURLToPath(new URL('./dashboard.bin', import.meta.url));

/** The page's files in one (dashboard/archive.ts): as built with the programs, else from the sources. */
export async function readPage(): Promise<ArrayBuffer> {
  const page = await readFile(existsSync(BUILT) ? BUILT : (await freshDashboard()).path);
  return page.buffer.slice(page.byteOffset, page.byteOffset + page.byteLength);
}
