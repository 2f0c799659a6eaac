import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { until } from '../../../../support/poll.ts';
import {
  buildPowerLoss,
  type Keeps,
  noPowerLoss,
  type PowerLoss,
  type Syncs,
} from '../../../../support/power-loss.ts';
import { RECORD } from '../../../../support/recorded-writes.ts';

const WRITER = fileURLToPath(new URL('../../../../support/stand-ins/storage-writer.ts', import.meta.url));

let folder: string;
let path: string;
let power: PowerLoss;
const running: ChildProcess[] = [];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'storage-'));
  path = join(folder, 'data', 'default', 'queue.sqlite');
  if (noPowerLoss === null) power = buildPowerLoss(folder);
});
afterEach(() => {
  for (const child of running.splice(0)) child.kill('SIGKILL');
  if (noPowerLoss === null) power.remove();
  rmSync(folder, { recursive: true, force: true });
});

interface Writer {
  acknowledged: number[];
  /** With `SIGKILL`, unless it has ended by itself. */
  killed(): Promise<void>;
  /** @returns what it said, once it has ended by itself */
  ended(): Promise<{ code: number | null; said: string }>;
}

function start(mode: 'sync' | 'at-once' | 'read', syncs?: Syncs): Writer {
  const env = { ...process.env, ...power.env(syncs) };
  const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', WRITER, path, mode], {
    env,
  });
  running.push(child);
  const closed = once(child, 'close');
  const said = text(child.stderr);
  const acknowledged: number[] = [];
  let rest = '';
  child.stdout.on('data', (data) => {
    const lines = (rest + data).split('\n');
    rest = lines.pop()!;
    acknowledged.push(...lines.map(Number));
  });
  return {
    acknowledged,
    killed: async () => {
      child.kill('SIGKILL');
      await closed;
    },
    ended: async () => {
      await closed;
      return { code: child.exitCode, said: await said };
    },
  };
}

/** Rows that were acknowledged and are gone. */
function missing(acknowledged: readonly number[], at = path): number[] {
  const database = new DatabaseSync(at);
  try {
    expect(database.prepare('PRAGMA integrity_check').all()).toMatchObject([{ integrity_check: 'ok' }]);
    const rows = database.prepare('SELECT n, text FROM t').all();
    for (const { n, text: written } of rows) {
      expect(written).toBe(String(n).repeat(1 + (Number(n) % 700)));
    }
    const found = new Set(rows.map(({ n }) => n));
    const last = database.prepare('SELECT n FROM last').get();
    expect(last?.n).toBe(Math.max(...rows.map(({ n }) => Number(n))));
    return acknowledged.filter((n) => !found.has(n));
  } finally {
    database.close();
  }
}

/** The same numbers for the same seed, from 0 to 1. */
function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1664525 + 1013904223) % 2 ** 32;
    return state / 2 ** 32;
  };
}

describe.skipIf(noPowerLoss !== null)('when the power is lost', () => {
  it('everything acknowledged is still there, whatever of the rest was written, and goes on', async () => {
    const acknowledged: number[] = [];
    for (let round = 1; round <= 8; round += 1) {
      const next = random(round);
      const writer = start('sync', { ms: round % 3 });
      const wanted = 20 + Math.floor(next() * 400);
      await until(() => writer.acknowledged.length >= wanted, `${wanted} rows are acknowledged`);
      await writer.killed();
      acknowledged.push(...writer.acknowledged);
      const kept = round % 2 === 0 ? 0 : next();
      power.strike(() => next() < kept);
      expect(missing(acknowledged)).toEqual([]);
    }
  });

  it('at any moment, the same', async () => {
    const writer = start('sync', { ms: 1 });
    await until(() => writer.acknowledged.length >= 300, 'rows are acknowledged');
    await writer.killed();
    const records = power.records();
    const isLog = (name: string) => name.endsWith('-wal');
    const begins = records.flatMap(({ kind, path: name, offset }, n) =>
      kind === RECORD.write && isLog(name) && offset === 0 ? [n] : [],
    );
    // The log has begun anew: from here on its header, old frames and pages of the database may contradict each other.
    expect(begins.length).toBeGreaterThan(3);
    const next = random(1);
    const any = Array.from({ length: 16 }, () => Math.floor(next() * records.length));
    const moments = [...begins.slice(0, 8).flatMap((n) => [n + 1, n + 2, n + 4, n + 12]), ...any];
    const disks: Keeps[] = [
      () => false,
      () => next() < 0.5,
      ({ path: name }) => isLog(name),
      ({ path: name }) => !isLog(name),
      ({ path: name, offset }) => !isLog(name) || offset >= 32,
      ({ path: name, offset }) => !isLog(name) || offset < 32,
      ({ path: name, offset }) => !isLog(name) || offset > 9000,
    ];
    const elsewhere = join(folder, 'elsewhere');
    for (const moment of moments) {
      for (const keeps of disks) {
        const said = power.imagine(records.slice(0, moment), elsewhere, keeps);
        const acknowledged = said.split('\n').slice(0, -1).map(Number);
        if (acknowledged.length === 0) continue;
        expect(missing(acknowledged, path.replace(folder, elsewhere))).toEqual([]);
      }
    }
  });

  it('rows that were acknowledged before their sync are gone: this test would see it', async () => {
    const before = start('sync');
    await until(() => before.acknowledged.length >= 20, 'there is a database');
    await before.killed();
    power.strike();
    const writer = start('at-once', { ms: 200 });
    await until(() => writer.acknowledged.length >= 20, 'rows are acknowledged');
    await writer.killed();
    power.strike();
    expect(missing(writer.acknowledged)).not.toEqual([]);
  });

  it('what a process has read of one that was killed before is still there', async () => {
    const writer = start('at-once', { ms: 300 });
    // The first are committed, and their sync is on its way.
    await until(() => writer.acknowledged.length >= 9, 'rows are written');
    await writer.killed();
    const reader = start('read');
    await until(() => reader.acknowledged.length > 0, 'rows are read');
    await reader.killed();
    power.strike();
    expect(missing(reader.acknowledged)).toEqual([]);
  });
});

describe.skipIf(noPowerLoss !== null)('when a sync fails', () => {
  it.each([0, 1, 2, 3, 4, 5, 8, 40, 41, 42, 43, 80])(
    'after %i, the process ends, and nothing is acknowledged that is not there',
    async (succeed) => {
      const writer = start('sync', { succeed });
      const { code, said } = await writer.ended();
      expect([code, said]).toEqual([
        1,
        expect.stringMatching(/^what was written to \S+queue.sqlite cannot be synced, .*\n$/),
      ]);
      power.strike();
      if (writer.acknowledged.length > 0) expect(missing(writer.acknowledged)).toEqual([]);
      else expect(succeed).toBeLessThan(40);
    },
  );
});
