import { execFileSync } from 'node:child_process';
import { cpSync, globSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * `npm run pack`: makes the package that is published, in `dist/package/`. package.json names all that the programs are
 * made of; who installs them needs what is not in their bundles alone.
 */
const INSTALLED = ['p-retry', 'zod'];

const root = join(import.meta.dirname, '..');
const folder = join(root, 'dist/package');

execFileSync(process.execPath, [join(root, 'scripts/build.ts')], { stdio: 'inherit' });
const {
  private: _,
  scripts,
  devDependencies,
  dependencies,
  ...manifest
} = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
rmSync(folder, { recursive: true, force: true });
for (const path of ['README.md', 'LICENSE', 'CHANGELOG.md', ...globSync(manifest.files, { cwd: root })]) {
  cpSync(join(root, path), join(folder, path), { recursive: true });
}
const installed = Object.fromEntries(INSTALLED.map((name) => [name, dependencies[name]]));
const published = { ...manifest, dependencies: installed };
writeFileSync(join(folder, 'package.json'), `${JSON.stringify(published, null, 2)}\n`);
