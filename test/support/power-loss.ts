import { spawnSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Disk, type Recorded, readRecords, replay } from './recorded-writes.ts';

/**
 * What may be lost of the files of a process when the power is: all that it has written and not synced. A disk writes in
 * any order, so any part of that may be there all the same.
 */
export interface PowerLoss {
  /** Variables of the environment that a process must be started with. */
  env(syncs?: Syncs): Record<string, string>;
  /** The power is lost after the process has been killed: the folder has what is left. */
  strike(keeps?: Keeps): void;
  /** Returns all that the process has written, synced, made and said, in order, since the last strike. */
  records(): Recorded[];
  /**
   * What there would be if the power had been lost when it had done these.
   * @param into has the files then @returns what it had said
   */
  imagine(records: readonly Recorded[], into: string, keeps?: Keeps): string;
  remove(): void;
}

/** Returns whether an unsynced write is on the disk all the same. */
export type Keeps = (write: Recorded) => boolean;

export interface Syncs {
  /** Each lasts longer by this, ms. */
  ms?: number;
  /** All after these fail. */
  succeed?: number;
}

/** Why power cannot be lost here; null: it can. */
export const noPowerLoss: string | null =
  process.platform !== 'linux'
    ? 'the writes of a process can be recorded on Linux only'
    : spawnSync('cc', ['--version']).status !== 0
      ? 'no C compiler (cc) to build the shim of the power loss with'
      : null;

const nothing: Keeps = () => false;

/**
 * Compiles a library that the process loads before its own.
 * @param below what lies in this folder can be lost
 */
export function buildPowerLoss(below: string): PowerLoss {
  const folder = mkdtempSync(join(tmpdir(), 'power-loss-'));
  const source = fileURLToPath(new URL('power-loss-shim.c', import.meta.url));
  const library = join(folder, 'power-loss-shim.so');
  const file = join(folder, 'records');
  const flags = ['-O2', '-shared', '-fPIC', '-pthread'];
  const built = spawnSync('cc', [...flags, '-o', library, source], { encoding: 'utf8' });
  if (built.status !== 0) throw new Error(`the shim of the power loss cannot be built: ${built.stderr}`);
  let before: Disk = new Map();
  const records = () => readRecords(readFileSync(file));
  return {
    env: ({ ms = 0, succeed } = {}) => {
      if (!existsSync(file)) before = contentsOf(below);
      return {
        LD_PRELOAD: library,
        UNSYNCED_BELOW: below,
        UNSYNCED_RECORDS: file,
        SYNC_MS: String(ms),
        ...(succeed === undefined ? {} : { SYNCS_THAT_SUCCEED: String(succeed) }),
      };
    },
    records,
    strike: (keeps = nothing) => {
      const { disk } = replay(before, records(), keeps);
      put(disk, below, below);
      rmSync(file);
    },
    imagine: (done, into, keeps = nothing) => {
      const { disk, said } = replay(before, done, keeps);
      put(disk, below, into);
      return said;
    },
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}

function contentsOf(folder: string): Disk {
  const found = readdirSync(folder, { recursive: true, withFileTypes: true });
  return new Map(
    found
      .filter((entry) => entry.isFile() && !entry.name.endsWith('-shm'))
      .map(({ parentPath, name }) => [join(parentPath, name), readFileSync(join(parentPath, name))]),
  );
}

/** In place of all that there is. */
function put(disk: Disk, below: string, into: string): void {
  if (existsSync(into)) {
    for (const entry of readdirSync(into)) rmSync(join(into, entry), { recursive: true });
  }
  for (const [path, bytes] of disk) {
    const target = join(into, relative(below, path));
    mkdirSync(dirname(target), { recursive: true });
    writeFileSync(target, bytes);
  }
}
