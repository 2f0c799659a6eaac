import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { packTarball, withoutNpm } from '../../scripts/pack.ts';
import { cleanEnvironment } from './road.ts';

/**
 * Packs what `npm publish` would publish, and installs it as a user would.
 * @param folder an empty one, which becomes a project with the package and its dependencies, and nothing else
 * @returns paths of what is published
 */
export function installPublished(folder: string): string[] {
  const { path, files } = packTarball(folder);
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}');
  execFileSync('npm', ['install', '--prefer-offline', '--loglevel=error', path], {
    cwd: folder,
    env: withoutNpm(cleanEnvironment()),
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  return files;
}
