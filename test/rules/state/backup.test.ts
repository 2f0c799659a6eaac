import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openSnapshot, takeBackup } from '../../../src/state/backup.ts';
import { writeManifest } from '../../../src/state/manifest.ts';
import { restoreBackup } from '../../../src/state/restore.ts';
import { openDatabase } from '../../../src/state/sqlite.ts';

let root: string;
const children: ChildProcess[] = [];
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'backup-'));
});
afterEach(async () => {
  for (const child of children.splice(0)) child.kill('SIGKILL');
  await rm(root, { recursive: true });
});

const NAMES = ['a', 'b', 'c'].map((name) => `queue-%4${name}/${name}.sqlite`);

/** A state folder of three databases with a number in each. */
function stateFolder(): string {
  const folder = join(root, 'state');
  for (const name of NAMES) {
    mkdirSync(join(folder, 'data', name, '..'), { recursive: true });
    const database = openDatabase(join(folder, 'data', name));
    database.exec('PRAGMA journal_mode = WAL; CREATE TABLE t (n INTEGER); INSERT INTO t VALUES (0)');
    database.close();
  }
  writeFileSync(join(folder, 'tokens.json'), '[]');
  return folder;
}

/** A process that counts in all of them, one commit after another: never is one more than 1 ahead of the next. */
async function countIn(folder: string): Promise<void> {
  const program = `const { DatabaseSync } = require('node:sqlite');
    const all = ${JSON.stringify(NAMES.map((name) => join(folder, 'data', name)))}.map((path) => {
      const database = new DatabaseSync(path);
      database.exec('PRAGMA synchronous = OFF');
      return database.prepare('UPDATE t SET n = ?');
    });
    let n = 0;
    setInterval(() => { n += 1; for (const one of all) one.run(n); }, 1);
    setTimeout(() => process.stdout.write('counts'), 50);`;
  const child = spawn(process.execPath, ['-e', program], { stdio: ['ignore', 'pipe', 'ignore'] });
  children.push(child);
  await once(child.stdout, 'data');
}

const numberIn = (path: string) => {
  const database = openDatabase(path, { readOnly: true });
  const { n } = database.prepare('SELECT n FROM t').get() as { n: number };
  database.close();
  return n;
};

describe('a snapshot', () => {
  it('is of one moment over all databases, while another process writes them', async () => {
    const folder = stateFolder();
    await countIn(folder);
    const seen: number[] = [];
    for (let tries = 0; tries < 300; tries++) {
      const all = await openSnapshot(join(folder, 'data'));
      const [a, b, c] = all.map(({ reader }) => Number(reader.prepare('SELECT n FROM t').get()!.n));
      for (const { reader } of all) reader.close();
      expect(a! >= b! && b! >= c! && a! - c! <= 1, `${a}, ${b}, ${c}`).toBe(true);
      seen.push(a!);
    }
    expect(seen.at(-1)).toBeGreaterThan(seen[0]!);
  });
});

describe('a backup', () => {
  it('comes back as it was taken', async () => {
    const folder = stateFolder();
    await countIn(folder);
    const told: number[] = [];
    await takeBackup(folder, join(root, 'copy'), (done, total) => told.push(done / total));
    expect(told.at(-1)).toBe(1);
    await restoreBackup(join(root, 'copy'), join(root, 'new'), () => {});
    const [a, b, c] = NAMES.map((name) => numberIn(join(root, 'new', 'data', name)));
    expect(a).toBeGreaterThan(0);
    expect(a! - c!).toBeLessThanOrEqual(1);
    expect(b).toBeLessThanOrEqual(a!);
    expect(readFileSync(join(root, 'new', 'tokens.json'), 'utf8')).toBe('[]');
  });

  it.each(['changed', 'cut', 'missing'])(
    'with a file that is %s is refused before anything is written',
    async (how) => {
      await takeBackup(stateFolder(), join(root, 'copy'), () => {});
      const path = join(root, 'copy', 'data', NAMES[1]!);
      const bytes = readFileSync(path);
      if (how === 'changed') bytes.writeUInt8(bytes.readUInt8(5000) ^ 1, 5000);
      if (how === 'missing') rmSync(path);
      else writeFileSync(path, how === 'cut' ? bytes.subarray(0, 4096) : bytes);
      const restored = restoreBackup(join(root, 'copy'), join(root, 'new'), () => {});
      await expect(restored).rejects.toMatchObject({
        exitCode: 11,
        message: expect.stringMatching(/b\.sqlite is/),
      });
      expect(() => readFileSync(join(root, 'new', 'tokens.json'))).toThrow();
    },
  );

  describe('that somebody has changed', () => {
    interface Listed {
      path: string;
    }
    /** With another list of files, as its maker could sign it too. */
    async function changed(change: (files: Listed[]) => Listed[], isSigned: boolean): Promise<string> {
      const folder = join(root, 'copy');
      await takeBackup(stateFolder(), folder, () => {});
      const manifest = JSON.parse(readFileSync(join(folder, 'backup.json'), 'utf8'));
      const files = change(manifest.files);
      rmSync(join(folder, 'backup.json'));
      if (isSigned) await writeManifest(folder, { ...manifest, files });
      else writeFileSync(join(folder, 'backup.json'), JSON.stringify({ ...manifest, files }));
      return folder;
    }
    const restore = (folder: string) => restoreBackup(folder, join(root, 'new'), () => {});
    const hasWrittenNothing = () => {
      expect(readdirSync(root).sort()).toEqual(['copy', 'state']);
    };

    it.each([
      ...['/tmp/x.sqlite', '../x.sqlite', 'data/../../x.sqlite', 'data\n/../../x.sqlite', 'x\n../../x'],
      ...['data/x.sqlite\n', 'data/./x.sqlite', 'data//x.sqlite', 'lock', 'data', 'data/x', 'tokens.json\n'],
    ])('to write %j is refused', async (path) => {
      const folder = await changed((files) => [...files, { ...files[0]!, path }], true);
      await expect(restore(folder)).rejects.toMatchObject({ exitCode: 11 });
      hasWrittenNothing();
    });

    it.each([true, false])('so that an entry is missing is refused (file left there: %s)', async (isLeft) => {
      const folder = await changed((files) => files.filter(({ path }) => !path.endsWith('b.sqlite')), isLeft);
      if (!isLeft) rmSync(join(folder, 'data', NAMES[1]!));
      await expect(restore(folder)).rejects.toMatchObject({
        exitCode: 11,
        message: expect.stringContaining('list of files'),
      });
      hasWrittenNothing();
    });

    it('so that a file is named twice is refused', async () => {
      const folder = await changed((files) => [...files, files[0]!], true);
      await expect(restore(folder)).rejects.toMatchObject({ exitCode: 11 });
    });

    it.each(['file', 'folder'])('so that a %s is a link is refused', async (what) => {
      const folder = await changed((files) => files, true);
      const path = join(folder, 'data', what === 'file' ? NAMES[1]! : dirname(NAMES[1]!));
      renameSync(path, join(root, 'elsewhere'));
      symlinkSync(join(root, 'elsewhere'), path);
      await expect(restore(folder)).rejects.toMatchObject({
        exitCode: 11,
        message: expect.stringContaining('a link'),
      });
      expect(existsSync(join(root, 'new'))).toBe(false);
    });
  });

  it('of a damaged database is none', async () => {
    const folder = stateFolder();
    const path = join(folder, 'data', NAMES[0]!);
    const bytes = readFileSync(path);
    bytes.write('nonsense', 4096, 'latin1');
    writeFileSync(path, bytes);
    await expect(takeBackup(folder, join(root, 'copy'), () => {})).rejects.toMatchObject({ exitCode: 11 });
    await expect(restoreBackup(join(root, 'copy'), join(root, 'new'), () => {})).rejects.toThrow(
      'not a whole backup',
    );
  });

  it('of the state of another version is none', async () => {
    const folder = stateFolder();
    const database = openDatabase(join(folder, 'data', NAMES[2]!));
    database.exec('CREATE TABLE schema_version (version INTEGER); INSERT INTO schema_version VALUES (1)');
    database.close();
    await expect(takeBackup(folder, join(root, 'copy'), () => {})).rejects.toThrow('another version');
  });

  it('needs a state folder', async () => {
    await expect(takeBackup(join(root, 'none'), join(root, 'copy'), () => {})).rejects.toThrow(
      'holds no state',
    );
  });
});
