import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { until } from '../support/poll.ts';
import {
  cli,
  type QueueProcess,
  readyWorker,
  setPace,
  startQueue,
  tearDown,
  type WorkerProcess,
} from '../support/road.ts';

/** `worker-vllm submit FILE.jsonl`, typed by a user. */
let queue: QueueProcess;
let worker: WorkerProcess;
let folder: string;

beforeAll(async () => {
  queue = await startQueue();
  worker = await readyWorker(queue.url, 'w', {
    env: { CASOLA_MAX_JOBS: '8' },
    engineArgs: '--inter-token-latency-ms 20',
  });
});
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'submit-'));
  return () => rm(folder, { recursive: true, force: true });
});
afterAll(tearDown);

const file = () => join(folder, 'prompts.jsonl');
const results = async () =>
  (await readFile(join(folder, 'prompts.results.jsonl'), 'utf8'))
    .trimEnd()
    .split('\n')
    .map(
      (text) => JSON.parse(text) as { line: number; id: string; state: string; error: { message: string } },
    );
const prompts = (count: number, maxTokens = 4) =>
  Array.from({ length: count }, (_, n) =>
    JSON.stringify({
      messages: [{ role: 'user', content: `prompt ${n}` }],
      max_tokens: maxTokens,
      ignore_eos: true,
    }),
  );
/** So many prompts that end soon, and others that run until the engine is told to hasten. */
const shortAndLong = (short: number, long: number) => [...prompts(short), ...prompts(long, 200)];
const submit = (...more: string[]) => cli(['submit', file(), '--url', queue.url, ...more]);
const isThere = (path: string) =>
  stat(path).then(
    () => true,
    () => false,
  );

it('writes a result for every line, and says how it went', async () => {
  await writeFile(file(), `${prompts(20).join('\n')}\n\n`);
  const child = submit();
  expect((await child.exited).code).toBe(0);
  expect(child.output()).toContain('20 succeeded, 0 failed');
  expect(new Set((await results()).map(({ line }) => line)).size).toBe(20);
  expect(await isThere(join(folder, 'prompts.results.jsonl.run'))).toBe(false);
});

it('takes whole jobs too, and tells of each that the queue rejects', async () => {
  const good = JSON.stringify({ payload: JSON.parse(prompts(1)[0] as string), priority: 5 });
  const bad = JSON.stringify({ payload: {}, priority: 'high' });
  await writeFile(file(), `${good}\n${bad}\n`);
  const child = submit();
  expect((await child.exited).code).toBe(1);
  const [rejected] = (await results()).filter(({ state }) => state === 'rejected');
  expect(rejected).toMatchObject({ line: 2, error: { message: expect.stringContaining('priority') } });
});

it('goes on where it was stopped, and runs nothing twice', async () => {
  await writeFile(file(), `${shortAndLong(12, 48).join('\n')}\n`);
  const first = submit('--in-flight', '8');
  await until(async () => (await results()).length >= 10, 'ten results');
  first.kill('SIGINT');
  expect((await first.exited).code).toBe(130);
  expect(first.output()).toContain('To go on');
  const before = await results();
  await setPace(worker.engineUrl, 0);
  const second = submit();
  expect((await second.exited).code).toBe(0);
  expect(second.output()).toContain('lines are done already');
  const all = await results();
  expect(all.slice(0, before.length)).toEqual(before);
  expect(new Set(all.map(({ line }) => line)).size).toBe(60);
  expect(all).toHaveLength(60);
});

it('goes on after it was killed in the middle of a line', async () => {
  await setPace(worker.engineUrl, 20);
  await writeFile(file(), `${shortAndLong(6, 24).join('\n')}\n`);
  const first = submit('--in-flight', '4');
  await until(async () => (await results()).length >= 5, 'five results');
  first.kill('SIGKILL');
  await first.exited;
  const path = join(folder, 'prompts.results.jsonl');
  await writeFile(path, '{"line":30,"st', { flag: 'a' });
  await setPace(worker.engineUrl, 0);
  expect((await submit().exited).code).toBe(0);
  expect((await results()).map(({ line }) => line).toSorted((a, b) => a - b)).toEqual(
    Array.from({ length: 30 }, (_, n) => n + 1),
  );
});

it('submits nothing of a file with a mistake in it', async () => {
  await writeFile(file(), `${prompts(1)[0]}\n{"messages": [}\n`);
  const child = submit();
  expect((await child.exited).code).toBe(2);
  expect(child.output()).toContain('prompts.jsonl, line 2: not JSON');
  expect(await isThere(join(folder, 'prompts.results.jsonl'))).toBe(false);
});

it('does not write over results that are complete', async () => {
  await writeFile(file(), `${prompts(1)[0]}\n`);
  await writeFile(join(folder, 'prompts.results.jsonl'), 'mine\n');
  const child = submit();
  expect((await child.exited).code).toBe(2);
  expect(child.output()).toContain('Move it away');
});

it('says what the jobs wait for, and what can be done', async () => {
  await writeFile(file(), prompts(2).join('\n'));
  const child = submit('--config-id', 'elsewhere');
  await child.waitForLine(
    /^Waits because it has no worker\. Start a worker with CASOLA_CONFIG_ID=elsewhere\.$/,
  );
  child.kill('SIGINT');
  expect((await child.exited).code).toBe(130);
});
