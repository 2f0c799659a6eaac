import { execFileSync } from 'node:child_process';
import { cpSync, globSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * `npm run pack`: makes the package that is published, in `dist/package/`. package.json names all that the programs are
 * made of; who installs them needs what is not in their bundles alone.
 */
export const INSTALLED = ['p-retry', 'zod'];

const root = join(import.meta.dirname, '..');
const FOLDER = join(root, 'dist/package');

/** The tarball that `npm publish` would send. */
export interface Tarball {
  path: string;
  /** Paths of what is in it, as seen from the package. */
  files: string[];
}

/**
 * Makes the package and packs it. The file has the same bytes wherever and whenever it is made of the same sources, with
 * the same packages, Node and npm.
 * @param into an existing folder
 */
export function packTarball(into: string): Tarball {
  makePackage();
  const packed = execFileSync('npm', ['pack', FOLDER, '--json', '--pack-destination', into], {
    env: withoutNpm(process.env),
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [{ filename, files }] = JSON.parse(packed);
  return { path: join(into, filename), files: files.map(({ path }: { path: string }) => path) };
}

/** Returns an environment without the variables that `npm run` sets for the npm that its script starts. */
export function withoutNpm(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !/^npm_/i.test(name)));
}

function makePackage(): void {
  // On stderr, so that what a command prints for other programs stays whole.
  execFileSync(process.execPath, [join(root, 'scripts/build.ts')], { stdio: ['ignore', 2, 2] });
  const {
    private: _,
    scripts,
    devDependencies,
    dependencies,
    knip,
    ...manifest
  } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  rmSync(FOLDER, { recursive: true, force: true });
  for (const path of ['README.md', 'LICENSE', ...globSync(manifest.files, { cwd: root })]) {
    cpSync(join(root, path), join(FOLDER, path), { recursive: true });
  }
  const installed = Object.fromEntries(INSTALLED.map((name) => [name, dependencies[name]]));
  const published = { ...manifest, dependencies: installed };
  writeFileSync(join(FOLDER, 'package.json'), `${JSON.stringify(published, null, 2)}\n`);
}

if (import.meta.main) makePackage();
