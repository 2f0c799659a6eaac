import { cpSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

/** The programs as they ship, built before the first test. */

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

type Program = 'supervisor' | 'worker' | 'simulator';

/** Returns the path that Node is given to run a program. */
export function bundle(program: Program): string {
  return join(ROOT, 'dist/programs', `${program}.js`);
}

/**
 * The supervisor as it ships, over another worker.
 * @param folder for a copy of the programs; an empty one of the caller's
 * @param worker path of the program in its place
 */
export function supervisorOver(worker: string, folder: string): string {
  const programs = join(folder, 'dist/programs');
  cpSync(join(ROOT, 'dist/programs'), programs, { recursive: true });
  cpSync(join(ROOT, 'package.json'), join(folder, 'package.json'));
  writeFileSync(join(programs, 'worker.js'), `import ${JSON.stringify(pathToFileURL(worker).href)};\n`);
  return join(programs, 'supervisor.js');
}
