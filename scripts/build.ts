import { execFileSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { buildPrograms } from './programs.ts';

/**
 * `npm run build`: what is published, in `dist/`: the programs as bundles, and the modules that other packages
 * import one by one, with their types.
 */
const root = join(import.meta.dirname, '..');

// The programs in `dist/` stay, since some may be running.
for (const folder of ['client', 'protocol']) {
  rmSync(join(root, 'dist', folder), { recursive: true, force: true });
}
execFileSync(join(root, 'node_modules/.bin/tsc'), ['-p', join(root, 'scripts/tsconfig.build.json')], {
  stdio: 'inherit',
});
await buildPrograms(0);
