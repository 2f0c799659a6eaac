import { readFileSync } from 'node:fs';
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Of this package; from `src/` in a checkout as from `dist/` in the published package. */
export const manifest: { version: string; description: string } = JSON.parse(
  readFileSync(new URL('../../package.json', import.meta.url), 'utf8'),
);

/**
 * Path of a module of this package that is run as a program: TypeScript in a checkout, JavaScript in the
 * published package, since Node does not run TypeScript below node_modules.
 * @param module relative to `from`, without extension
 * @param from the caller's `import.meta.url`
 */
export function programPath(module: string, from: string): string {
  return fileURLToPath(new URL(`${module}${extname(from)}`, from));
}
