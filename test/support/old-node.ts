import { execFileSync } from 'node:child_process';

/** A Node too old for the programs, as a newcomer's machine may have one; null where there is none. */
export function findOldNode(): string | null {
  for (const path of ['/usr/bin/node', '/usr/local/bin/node']) {
    try {
      const major = Number(/^v(\d+)/.exec(execFileSync(path, ['--version'], { encoding: 'utf8' }))?.[1]);
      if (major < 22) return path;
    } catch {
      // Not there.
    }
  }
  return null;
}
