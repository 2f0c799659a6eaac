import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';
import { cleanEnvironment } from '../support/road.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** An empty project with the published package and its dependencies, and nothing else. */
    app: string;
    /** Paths of what is published. */
    published: string[];
  }
}

const REPOSITORY = join(import.meta.dirname, '../..');

/** Packs what `npm publish dist/package` would publish, and installs it as a user would. */
export default function setup({ provide }: TestProject): () => void {
  const folder = mkdtempSync(join(tmpdir(), 'published-'));
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
  provide('app', folder);
  provide(
    'published',
    files.map(({ path }: { path: string }) => path),
  );
  return () => rmSync(folder, { recursive: true, force: true });
}

/** Without what `npm test` tells the npm that it starts. */
function npmEnvironment(): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(cleanEnvironment()).filter(([name]) => !/^npm_/i.test(name)));
}
