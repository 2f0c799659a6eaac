import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { runStateCheck } from '../../src/commands/state.ts';
import { EXIT, type Logger } from '../../src/process/index.ts';
import { checkDatabases } from '../../src/state/check.ts';
import { openDatabase } from '../../src/state/sqlite.ts';
import { until } from '../support/poll.ts';
import { type QueueProcess, startQueueProcess } from '../support/queue-process.ts';

let folder: string;
let logged: string[];
const started: QueueProcess[] = [];

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'state-'));
  logged = [];
});
afterEach(async () => {
  await Promise.all(started.splice(0).map((queue) => queue.stop()));
  await rm(folder, { recursive: true, force: true });
});

const log = (...said: unknown[]) => void logged.push(JSON.stringify(said));
const logger = { debug: () => {}, info: log, warn: log, error: log } as unknown as Logger;

async function start(stateDir = folder): Promise<QueueProcess> {
  const queue = await startQueueProcess({ host: '127.0.0.1', port: 0, stateDir, bindings: {}, logger });
  started.push(queue);
  return queue;
}

const submit = (url: string, id: string, text = 'x') =>
  fetch(`${url}/api/jobs`, {
    method: 'POST',
    body: JSON.stringify({ id, job_type: 'chat_completion', config_id: 'c', payload: { messages: [text] } }),
  });

/** Starts a queue, stores three jobs, and stops it. @returns the path of its database */
async function stateWithJobs(end: 'stop' | 'kill' = 'stop'): Promise<string> {
  const queue = await start();
  for (const id of ['a', 'b', 'c']) expect((await submit(queue.url, id)).status).toBe(201);
  await fetch(`${queue.url}/api/jobs/c`, { method: 'DELETE' });
  if (end === 'kill') queue.kill();
  else await queue.stop();
  await queue.exited;
  return databaseOf();
}

function databaseOf(): string {
  return join(folder, 'data', 'vllm-queue', 'queue.sqlite');
}

/** Puts bytes over those of a page in the middle. */
function overwrite(path: string, at: number, text: string): void {
  const bytes = readFileSync(path);
  bytes.write(text, at, 'latin1');
  writeFileSync(path, bytes);
}

function setVersion(path: string, version: number): void {
  const database = openDatabase(path);
  database.exec(`UPDATE schema_version SET version = ${version}`);
  database.close();
}

/** The same bytes each time, which look like nothing. */
const garbage = Array.from({ length: 3000 }, (_, at) => String.fromCharCode((at * 167 + 13) & 0xff)).join('');

/** Where in the file the page begins that says which version wrote it. */
function pageOfVersion(path: string): number {
  const database = openDatabase(path, { readOnly: true });
  const row = database.prepare(`SELECT rootpage FROM sqlite_master WHERE name = 'schema_version'`).get();
  const { page_size } = database.prepare('PRAGMA page_size').get()!;
  database.close();
  return (Number(row!.rootpage) - 1) * Number(page_size);
}

/** Everything below the folder, each file with a digest of its content; without the index that SQLite makes of a log. */
function contents(path: string): Record<string, string> {
  const files = readdirSync(path, { recursive: true, withFileTypes: true }).filter(
    (entry) => entry.isFile() && !entry.name.endsWith('-shm'),
  );
  return Object.fromEntries(
    files.map(({ parentPath, name }) => {
      const file = join(parentPath, name);
      return [file, createHash('sha256').update(readFileSync(file)).digest('hex')];
    }),
  );
}

const badState = (message: RegExp) => ({ exitCode: EXIT.badState, message: expect.stringMatching(message) });

describe('a state that a queue cannot use', () => {
  it.each([1, 99])('is refused at the start when version %i wrote it, and not touched', async (version) => {
    const path = await stateWithJobs();
    setVersion(path, version);
    const before = contents(folder);
    await expect(start()).rejects.toMatchObject(
      badState(
        new RegExp(
          `sqlite was written by another version .*state version ${version}, .* another state folder .*copy of tokens.json: docs/upgrading.md`,
        ),
      ),
    );
    expect(contents(folder)).toEqual(before);
  });

  it.each([
    ['its head', (path: string) => overwrite(path, 0, 'garbage garbage!')],
    ['a page in the middle', (path: string) => overwrite(path, 4096 * 2, '\xff'.repeat(4096))],
    ['the page of its version', (path: string) => overwrite(path, pageOfVersion(path) + 8, garbage)],
    ['its end', (path: string) => truncateSync(path, 9000)],
  ])('is refused at the start when a database has lost %s', async (_, damage) => {
    const path = await stateWithJobs();
    damage(path);
    await expect(start()).rejects.toMatchObject(
      badState(/sqlite is damaged \(.*\)\. ".*state check --state/),
    );
    const [report] = (await checkDatabases(folder, 'full')).filter(({ problem }) => problem);
    expect(report).toMatchObject({ path, problem: { kind: 'damaged' } });
    expect(await runStateCheck({ state: folder })).toBe(EXIT.badState);
  });

  it('is refused at the start when a database cannot be read', async () => {
    const path = await stateWithJobs();
    rmSync(path);
    mkdirSync(path);
    await expect(start()).rejects.toMatchObject(badState(/sqlite cannot be read \(it is not a file\)/));
  });

  it('is named in the answer and the log when it shows only later', async () => {
    const first = await start();
    await (await fetch(`${first.url}/v1/batches`)).text();
    await first.stop();
    const queue = await start();
    // This object reads its database at its first request; one with an alarm is made soon after the start.
    setVersion(join(folder, 'data', 'vllm-queue', 'batches.sqlite'), 99);
    const refused = await fetch(`${queue.url}/v1/batches`);
    expect([refused.status, await refused.text()]).toEqual([503, expect.stringContaining('another version')]);
    // The host tries again to make the object after some seconds, and logs it again.
    expect(logged.filter((line) => /state version 99/.test(line))).not.toEqual([]);
  });

  it('is named in the answer and the log when it is damaged while the queue runs', async () => {
    const first = await start();
    await (await fetch(`${first.url}/v1/batches`)).text();
    await first.stop();
    const queue = await start();
    // This object reads its database at its first request, so no page of it is in memory yet.
    const path = join(folder, 'data', 'vllm-queue', 'batches.sqlite');
    overwrite(path, 4096, '\xff'.repeat(statSync(path).size - 4096));
    const damaged = await fetch(`${queue.url}/v1/batches`);
    expect([damaged.status, await damaged.text()]).toEqual([503, expect.stringContaining('state_damaged')]);
    await until(() => logged.some((line) => /SQLITE_(NOTADB|CORRUPT)/.test(line)), 'it is logged');
  });

  it('is not one that was killed: its jobs are counted', async () => {
    const path = await stateWithJobs('kill');
    const reports = await checkDatabases(folder, 'full');
    expect(reports.find((report) => report.path === path)).toMatchObject({
      problem: null,
      jobs: { pending: 2, cancelled: 1 },
    });
    const queue = await start();
    expect((await fetch(`${queue.url}/api/jobs/a`)).status).toBe(200);
    expect((await checkDatabases(folder, 'full')).every(({ problem }) => problem === null)).toBe(true);
  });
});

describe('a full disk', () => {
  const upload = (url: string, bytes: number) =>
    fetch(`${url}/v1/files?purpose=batch`, {
      method: 'POST',
      headers: { 'content-type': 'application/jsonl' },
      body: 'x'.repeat(bytes),
    });
  let mount: string | null = null;
  beforeEach((context) => {
    const path = join(folder, 'small');
    mkdirSync(path);
    try {
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=8m', 'tmpfs', path], { stdio: 'ignore' });
      mount = path;
    } catch {
      context.skip('a file system of a known size can be mounted by root alone');
    }
  });
  afterEach(async () => {
    await Promise.all(started.splice(0).map((queue) => queue.stop()));
    if (mount) execFileSync('umount', [mount]);
    mount = null;
  });

  it('is named in the answer and the log, what was stored stays, and nothing has to be started again', async () => {
    const queue = await start(mount!);
    expect((await submit(queue.url, 'first')).status).toBe(201);
    expect((await upload(queue.url, 1)).status).toBe(200);
    for (let i = 0; ; i += 1) {
      const response = await submit(queue.url, `fill-${i}`, 'x'.repeat(200_000));
      if (response.status === 201) continue;
      expect([response.status, response.headers.get('retry-after')]).toEqual([503, '30']);
      expect(await response.json()).toMatchObject({
        error: { code: 'disk_full', message: expect.stringContaining('full') },
      });
      break;
    }
    const full = await upload(queue.url, 8_000_000);
    // Which of the two depends on the statement that meets it first.
    const code = expect.stringMatching(/^(disk_full|queue_failed)$/);
    expect([full.status, await full.json()]).toMatchObject([503, { error: { code } }]);
    await until(() => logged.some((line) => /disk of the queue's state is full/.test(line)), 'it is logged');
    expect((await fetch(`${queue.url}/api/jobs/first`)).status).toBe(200);
    execFileSync('mount', ['-o', 'remount,size=16m', mount!]);
    await until(async () => (await submit(queue.url, 'last')).status === 201, 'there is room again');
    await until(async () => (await upload(queue.url, 1000)).status === 200, 'for files too');
  });
});
