import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** Modules lie two folders deep in every layout: `src/process/`, and `dist/programs/` once they are bundled. */
const ROOT = new URL('../../', import.meta.url);

/** The manifest of this package. */
export const manifest: { version: string; description: string } = JSON.parse(
  readFileSync(packagePath('package.json'), 'utf8'),
);

/** Returns the absolute path of a file of this package. @param path relative to the package's root */
export function packagePath(path: string): string {
  return fileURLToPath(new URL(path, ROOT));
}

/** The size of the worker's young generation, MB, half of V8's own. docs/decisions/package.md has the figures. */
const WORKER_SEMI_SPACE = 8;

/** Returns Node's arguments for one of this package's programs: always its bundle, even if sources run. */
export function programArguments(name: 'queue-process' | 'supervisor' | 'worker' | 'simulator'): string[] {
  const flags = name === 'worker' ? [`--max-semi-space-size=${WORKER_SEMI_SPACE}`] : [];
  return [...flags, packagePath(`dist/programs/${name}.js`)];
}
