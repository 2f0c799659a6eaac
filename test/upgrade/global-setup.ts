import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';
import { VERSION_BEFORE } from './version-before.ts';

const ROOT = join(import.meta.dirname, '../..');

declare module 'vitest' {
  export interface ProvidedContext {
    /** The folder with the built checkout of the version before. */
    versionBefore: string;
  }
}

/**
 * Checks out the version before into a folder of its own and builds it, before the first file.
 * @throws Error when this clone does not have its commit
 */
export default function setup(project: TestProject): () => void {
  requireCommit();
  const folder = mkdtempSync(join(tmpdir(), 'worker-vllm-before-'));
  const remove = () => rmSync(folder, { recursive: true, force: true });
  try {
    const archive = run('git', ['archive', VERSION_BEFORE], ROOT);
    execFileSync('tar', ['-x', '-C', folder], { input: archive });
    installInto(folder);
    run(process.execPath, ['scripts/build.ts'], folder);
  } catch (error) {
    remove();
    throw error;
  }
  project.provide('versionBefore', folder);
  return remove;
}

function requireCommit(): void {
  try {
    run('git', ['cat-file', '-e', `${VERSION_BEFORE}^{commit}`], ROOT);
  } catch {
    throw new Error(
      `This clone does not have the commit ${VERSION_BEFORE}, the version before that test/upgrade runs beside this one: ` +
        'fetch the whole history ("git fetch --unshallow") of a clone that is shallow.',
    );
  }
}

/** Where both versions have the same dependencies, one installation serves both. */
function installInto(folder: string): void {
  const [before, today] = [folder, ROOT].map((one) => readFileSync(join(one, 'package-lock.json'), 'utf8'));
  if (before === today) return symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  run('npm', ['ci', '--prefer-offline', '--no-audit', '--no-fund'], folder);
}

function run(command: string, args: string[], cwd: string): Buffer {
  return execFileSync(command, args, { cwd, maxBuffer: 1024 ** 3, stdio: ['ignore', 'pipe', 'inherit'] });
}
