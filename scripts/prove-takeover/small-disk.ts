import { execFileSync } from 'node:child_process';
import { closeSync, mkdirSync, openSync, rmSync, writeSync } from 'node:fs';
import { join } from 'node:path';

/** More than the files of a run, and small enough to be filled up in a moment. */
const SIZE = '256m';
const PIECES = [1 << 20, 4096];

/** A disk of its own for a state folder, in memory. It is gone with the last process that sees it. */
export class SmallDisk {
  readonly path: string;

  constructor(path: string) {
    this.path = path;
    mkdirSync(path, { recursive: true });
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${SIZE}`, 'prove-takeover', path]);
  }

  /** Takes all the room that is left. */
  fill(): void {
    const file = openSync(this.#ballast, 'w');
    for (const size of PIECES) {
      const piece = Buffer.alloc(size);
      try {
        while (writeSync(file, piece) === size);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
      }
    }
    closeSync(file);
  }

  empty(): void {
    rmSync(this.#ballast, { force: true });
  }

  get #ballast(): string {
    return join(this.path, 'ballast');
  }
}
