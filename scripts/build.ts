import { execFileSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { buildBundle } from '../src/workerd/bundle.ts';

/**
 * `npm run build`: what is published, in `dist/`. The modules of `src/` one by one as JavaScript, since Node
 * runs no TypeScript below node_modules, and the gateway with its objects as the one file that workerd loads.
 */
const root = join(import.meta.dirname, '..');
const dist = join(root, 'dist');

rmSync(dist, { recursive: true, force: true });
execFileSync(join(root, 'node_modules/.bin/tsc'), ['-p', join(root, 'tsconfig.build.json')], {
  stdio: 'inherit',
});
buildBundle(join(dist, 'workerd/gateway.js'), { sourcemap: true });
