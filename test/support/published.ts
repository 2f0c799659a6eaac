import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { cleanEnvironment } from './road.ts';

const REPOSITORY = join(import.meta.dirname, '../..');

/**
 * Packs what `npm publish dist/package` would publish, and installs it as a user would.
 * @param folder an empty one, which becomes a project with the package and its dependencies, and nothing else
 * @returns paths of what is published
 */
export function installPublished(folder: string): string[] {
  const npm = (args: string[], cwd: string) =>
    execFileSync('npm', args, {
      cwd,
      env: npmEnvironment(),
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'inherit'],
    });
  npm(['run', 'pack'], REPOSITORY);
  const packed = npm(['pack', './dist/package', '--json', '--pack-destination', folder], REPOSITORY);
  const [{ filename, files }] = JSON.parse(packed);
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}');
  npm(['install', '--prefer-offline', '--loglevel=error', join(folder, filename)], folder);
  return files.map(({ path }: { path: string }) => path);
}

/** Returns the environment without the variables that `npm test` sets for the npm that it starts. */
function npmEnvironment(): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(cleanEnvironment()).filter(([name]) => !/^npm_/i.test(name)));
}
