import {
  chmodSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause, setImmediate } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { DiskSpool } from '../../../src/worker/jobs/disk-spool.ts';
import type { SpooledSettlement } from '../../../src/worker/jobs/settlement.ts';

let base = '';
let folder = '';
let warnings: object[] = [];
beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), 'worker-vllm-test-'));
  folder = join(base, 'queue', 'worker');
  warnings = [];
});
afterEach(() => {
  vi.useRealTimers();
  rmSync(base, { recursive: true, force: true });
});

/** Another process on the same folder. */
function spoolAt(path = folder, limitBytes = 1_000_000): DiskSpool {
  const quiet = () => {};
  const log = { debug: quiet, info: quiet, error: quiet, warn: (fields: object) => warnings.push(fields) };
  return new DiskSpool(path, log, undefined, limitBytes);
}

/** All that a process starting now finds. */
async function loaded(spool = spoolAt()): Promise<SpooledSettlement[]> {
  const found: SpooledSettlement[] = [];
  for await (const spooled of spool.load()) found.push(spooled);
  return found;
}

function result(jobId: string, fence: number, text = 'é'): SpooledSettlement {
  return {
    settlement: { type: 'job_result', job_id: jobId, fence_token: fence, result: { text } },
    isExtended: true,
  };
}

test('what was put is loaded by the next process, in the order of the fences, until it is removed', async () => {
  const first = spoolAt();
  await loaded(first);
  const jobs = [result('b/../*', 10), result('a', 9), result('a', 11)];
  await Promise.all(jobs.map((job) => first.put(job)));
  expect(await loaded()).toEqual([jobs[1], jobs[0], jobs[2]]);
  const next = spoolAt();
  await loaded(next);
  await next.remove({ job_id: 'b/../*', fence_token: 10 });
  await next.remove({ job_id: 'never seen', fence_token: 1 });
  expect(await loaded()).toEqual([jobs[1], jobs[2]]);
  expect(warnings).toEqual([]);
});

test('every kind of settlement comes back as it was', async () => {
  const error: SpooledSettlement = {
    settlement: {
      type: 'job_error',
      job_id: 'e',
      fence_token: 1,
      error: 'Error code: 400 - no',
      code: 'engine_refused',
      retryable: false,
      http_status: 400,
      body: { error: { param: null } },
    },
    isExtended: false,
  };
  const ref: SpooledSettlement = {
    settlement: { type: 'job_result_ref', job_id: 'r', fence_token: 2 },
    isExtended: true,
  };
  const unsent: SpooledSettlement = { ...result('u', 3), uploadUrl: 'jobs/u/result?key=k' };
  await spoolAt().put(error);
  await spoolAt().put(ref);
  await spoolAt().put(unsent);
  expect(await loaded()).toEqual([error, ref, unsent]);
});

test('files are for this user only, and nothing but finished ones is left', async () => {
  const spool = spoolAt();
  await spool.put(result('a', 1));
  const [name, ...others] = readdirSync(folder);
  expect(others).toEqual([]);
  expect(statSync(join(folder, name!)).mode & 0o777).toBe(0o600);
  expect(statSync(folder).mode & 0o777).toBe(0o700);
});

test('what this process put while it still reads is not what an earlier one left', async () => {
  await spoolAt().put(result('earlier', 1));
  const spool = spoolAt();
  await spool.put(result('own', 2));
  expect(await loaded(spool)).toEqual([result('earlier', 1)]);
});

test('a removal follows the write that is under way', async () => {
  const spool = spoolAt();
  const put = spool.put(result('a', 1));
  await setImmediate();
  await spool.remove({ job_id: 'a', fence_token: 1 });
  await put;
  expect(readdirSync(folder)).toEqual([]);
});

test('what is removed before its turn is never written', async () => {
  const spool = spoolAt();
  const puts = ['a', 'b', 'c'].map((id, n) => spool.put(result(id, n + 1)));
  await setImmediate();
  await spool.remove({ job_id: 'b', fence_token: 2 });
  await Promise.all(puts);
  expect(await loaded(spoolAt())).toEqual([result('a', 1), result('c', 3)]);
});

test('what was sent is written only if it is not acknowledged soon', async () => {
  const spool = spoolAt();
  const puts = [spool.put(result('a', 1), true), spool.put(result('b', 2), true)];
  await setImmediate();
  expect(existsSync(folder)).toBe(false);
  await spool.remove({ job_id: 'a', fence_token: 1 });
  await Promise.all(puts);
  expect(await loaded()).toEqual([result('b', 2)]);
});

test('each has its own time to be acknowledged in, whatever came before it', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  const spool = spoolAt();
  const first = spool.put(result('a', 1), true);
  vi.advanceTimersByTime(15);
  const second = spool.put(result('b', 2), true).then(() => 'written');
  vi.advanceTimersByTime(10);
  await first;
  expect(await Promise.race([second, pause(50, 'waits')])).toBe('waits');
  vi.advanceTimersByTime(10);
  await second;
  expect(await loaded()).toEqual([result('a', 1), result('b', 2)]);
});

test('damaged files are set aside with one warning, unfinished ones removed, the rest is loaded', async () => {
  const spool = spoolAt();
  await spool.put(result('cut', 1));
  await spool.put(result('flipped', 2, 'hello'));
  await spool.put(result('whole', 3));
  const [cut, flipped] = readdirSync(folder).sort();
  writeFileSync(join(folder, cut!), readFileSync(join(folder, cut!)).subarray(0, 40));
  writeFileSync(
    join(folder, flipped!),
    readFileSync(join(folder, flipped!), 'utf8').replace('hello', 'jello'),
  );
  writeFileSync(join(folder, '4-x.result.tmp'), 'half');
  writeFileSync(join(folder, '5-x.result'), '');
  expect(await loaded()).toEqual([result('whole', 3)]);
  expect(warnings).toMatchObject([{ count: 3 }]);
  expect(readdirSync(folder).filter((name) => name.endsWith('.unreadable'))).toHaveLength(3);
  expect(readdirSync(folder).filter((name) => name.includes('.tmp'))).toEqual([]);
  expect(await loaded()).toEqual([result('whole', 3)]);
  expect(warnings).toHaveLength(1);
});

test('the bound on bytes holds over restarts, and room comes back with a removal', async () => {
  const big = (fence: number) => result('big', fence, 'x'.repeat(600));
  await spoolAt(folder, 1000).put(big(1));
  const spool = spoolAt(folder, 1000);
  await loaded(spool);
  await expect(spool.put(big(2))).rejects.toThrow(/more than 1000 bytes of results/);
  await spool.remove({ job_id: 'big', fence_token: 1 });
  await spool.put(big(3));
  expect(await loaded()).toEqual([big(3)]);
});

test('a folder that cannot be made or written is an error that says so', async () => {
  const file = join(base, 'file');
  writeFileSync(file, '');
  await expect(loaded(spoolAt(join(file, 'spool')))).rejects.toThrow(/file.*ENOTDIR/);
  await expect(spoolAt(join(file, 'spool')).put(result('a', 1))).rejects.toThrow(/file/);
});

test.skipIf(process.getuid?.() === 0)('a folder without the right to write names the variable', async () => {
  chmodSync(base, 0o500);
  await expect(loaded()).rejects.toThrow(/cannot be written \(EACCES\): set WORKER_SPOOL_DIR/);
  chmodSync(base, 0o700);
});
