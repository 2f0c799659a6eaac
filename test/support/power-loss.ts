import { spawnSync } from 'node:child_process';
import {
  closeSync,
  existsSync,
  ftruncateSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** A power loss for the files of a process: what it has written and not synced is lost. */
export interface PowerLoss {
  /**
   * Variables of the environment that the process must be started with.
   * @param below what lies in this folder counts
   */
  env(below: string, syncs?: Syncs): Record<string, string>;
  /**
   * To be called once the process has been killed. A disk writes in any order: each write that was not synced is kept
   * if `keeps` says so. @returns how many are lost
   */
  strike(keeps?: () => boolean): number;
  remove(): void;
}

interface Syncs {
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

/** Compiles a library that the process loads before its own. */
export function buildPowerLoss(): PowerLoss {
  const folder = mkdtempSync(join(tmpdir(), 'power-loss-'));
  const source = fileURLToPath(new URL('power-loss-shim.c', import.meta.url));
  const library = join(folder, 'power-loss-shim.so');
  const records = join(folder, 'records');
  const built = spawnSync('cc', ['-O2', '-shared', '-fPIC', '-pthread', '-o', library, source], {
    encoding: 'utf8',
  });
  if (built.status !== 0) throw new Error(`the shim of the power loss cannot be built: ${built.stderr}`);
  return {
    env: (below, { ms = 0, succeed } = {}) => ({
      LD_PRELOAD: library,
      UNSYNCED_BELOW: below,
      UNSYNCED_RECORDS: records,
      SYNC_MS: String(ms),
      ...(succeed === undefined ? {} : { SYNCS_THAT_SUCCEED: String(succeed) }),
    }),
    strike: (keeps = () => false) => {
      const lost = loseUnsynced(readRecords(readFileSync(records)), keeps);
      rmSync(records);
      return lost;
    },
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}

/** As in power-loss-shim.c. */
const KIND = { write: 1, truncate: 2, create: 3, sync: 4 };
const HEAD_BYTES = 48;

interface Recorded {
  /** Where it lies in the file of records. */
  at: number;
  kind: number;
  path: string;
  /** Of a write; the new size of a truncation; up to where a sync has synced. */
  offset: number;
  written: Buffer;
  replaced: Buffer;
  oldSize: number;
}

function readRecords(bytes: Buffer): Recorded[] {
  const records: Recorded[] = [];
  for (let at = 0; at + HEAD_BYTES <= bytes.length; ) {
    const [kind, pathLength, offset, newLength, oldLength, oldSize] = Array.from({ length: 6 }, (_, n) =>
      Number(bytes.readBigInt64LE(at + n * 8)),
    ) as [number, number, number, number, number, number];
    let end = at + HEAD_BYTES;
    const take = (length: number) => {
      end += length;
      return bytes.subarray(end - length, end);
    };
    const path = take(pathLength).toString();
    const record = { at, kind, path, offset, written: take(newLength), replaced: take(oldLength), oldSize };
    // The process was killed before it had recorded all of it, and so before it wrote.
    if (end > bytes.length) break;
    records.push(record);
    at = end;
  }
  return records;
}

function loseUnsynced(records: readonly Recorded[], keeps: () => boolean): number {
  /** Up to where what is recorded of a file or folder is synced. */
  const synced = new Map<string, number>();
  for (const { kind, path, offset } of records) if (kind === KIND.sync) synced.set(path, offset);
  const isSynced = (path: string, at: number) => at < (synced.get(path) ?? 0);
  const writes = records.filter(({ kind, path, at }) => kind <= KIND.truncate && !isSynced(path, at));
  for (const record of writes.toReversed()) {
    change(record.path, (file) => {
      ftruncateSync(file, record.oldSize);
      writeSync(file, record.replaced, 0, record.replaced.length, record.offset);
    });
  }
  let lost = 0;
  for (const { kind, path, offset, written } of writes) {
    if (!keeps()) {
      lost += 1;
      continue;
    }
    change(path, (file) => {
      if (kind === KIND.truncate) ftruncateSync(file, offset);
      else writeSync(file, written, 0, written.length, offset);
    });
  }
  for (const { kind, path, at } of records) {
    if (kind === KIND.create && !isSynced(dirname(path), at)) rmSync(path, { recursive: true, force: true });
  }
  return lost;
}

/** A file that the process has deleted stays so. */
function change(path: string, act: (file: number) => void): void {
  if (!existsSync(path)) return;
  const file = openSync(path, 'r+');
  act(file);
  closeSync(file);
}
