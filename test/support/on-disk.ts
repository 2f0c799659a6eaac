import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** Returns the files below a folder that hold a text. A process may be at work there: a file that it has removed since holds none. */
export function filesWith(folder: string, text: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name))
    .filter((file) => holds(file, text));
}

function holds(file: string, text: string): boolean {
  try {
    return readFileSync(file).includes(text);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false;
    throw error;
  }
}
