import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
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

/** `worker-vllm batch`, typed by a user. */
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
  folder = await mkdtemp(join(tmpdir(), 'batch-'));
  return () => rm(folder, { recursive: true, force: true });
});
afterAll(tearDown);

interface LineResponse {
  status_code: number;
  body: { object?: string; data?: unknown[]; results?: unknown[]; text?: string };
}

const file = () => join(folder, 'in.jsonl');
const batch = (...args: string[]) => cli(['batch', ...args, '--url', queue.url]);
const read = async (name: string) =>
  (await readFile(join(folder, name), 'utf8'))
    .trimEnd()
    .split('\n')
    .map((text) => JSON.parse(text) as { custom_id: string; response: LineResponse | null });

function line(customId: string, more: object = {}): string {
  const body = { messages: [{ role: 'user', content: customId }], max_tokens: 4, ...more };
  return JSON.stringify({ custom_id: customId, method: 'POST', url: '/v1/chat/completions', body });
}

it('runs a file and writes answers and errors beside it', async () => {
  const lines = Array.from({ length: 20 }, (_, n) => line(`line-${n}`));
  await writeFile(file(), `${[...lines, line('bad', { max_tokens: -1 })].join('\n')}\n`);
  const child = batch('run', file());
  expect((await child.exited).code).toBe(1);
  expect(child.output()).toContain('20 of 21 lines succeeded, 1 failed');
  expect(new Set((await read('in.output.jsonl')).map(({ custom_id }) => custom_id)).size).toBe(20);
  expect(await read('in.output.errors.jsonl')).toMatchObject([
    { custom_id: 'bad', response: { status_code: 400 } },
  ]);
});

it('leaves the batch running when it is stopped, and goes on with it', async () => {
  // So long that they run until the engine is told to hasten.
  const long = { max_tokens: 200, ignore_eos: true };
  await writeFile(file(), Array.from({ length: 60 }, (_, n) => line(`line-${n}`, long)).join('\n'));
  const first = batch('run', file());
  await until(() => /Batch (batch_\w+) runs 60 lines/.exec(first.output())?.[1], 'the batch to run');
  first.kill('SIGINT');
  expect((await first.exited).code).toBe(130);
  expect(first.output()).toContain(`worker-vllm batch run ${file()}`);
  const [, id] = /Batch (batch_\w+) runs/.exec(first.output())!;
  await setPace(worker.engineUrl, 0);
  const second = batch('run', file());
  expect((await second.exited).code).toBe(0);
  expect(second.output()).toContain(`Batch ${id} runs`);
  expect(await read('in.output.jsonl')).toHaveLength(60);
  const list = batch('list');
  expect((await list.exited).code).toBe(0);
  expect(list.output()).toMatch(new RegExp(`${id} +completed +60/60`));
});

it('takes a file of vllm run-batch with lines for different routes', async () => {
  const score = { queries: 'Who?', documents: ['a', 'b'] };
  const rerank = { query: 'Who?', documents: ['a', 'b'] };
  const lines = [
    [
      '/v1/chat/completions',
      { messages: [{ role: 'user', content: 'Hi' }], max_tokens: 4 },
      'chat.completion',
    ],
    ['/v1/embeddings', { input: 'Hi' }, 'list'],
    ['/score', score, 'list'],
    ['/v1/score', score, 'list'],
    ['/rerank', rerank, undefined],
    ['/v1/rerank', rerank, undefined],
    ['/v2/rerank', rerank, undefined],
    ['/v1/audio/transcriptions', { file_url: 'data:audio/wav;base64,UklGRg==' }, undefined],
  ] as const;
  const texts = lines.map(([url, body]) => {
    return JSON.stringify({ custom_id: url, method: 'POST', url, body: { model: 'tiny', ...body } });
  });
  await writeFile(file(), `${texts.join('\n')}\n`);
  const child = batch('run', file());
  expect(await child.exited).toMatchObject({ code: 0 });
  const output = new Map((await read('in.output.jsonl')).map((one) => [one.custom_id, one.response?.body]));
  expect([...output.keys()].sort()).toEqual(lines.map(([url]) => url).sort());
  for (const [url, , object] of lines) expect(output.get(url)?.object).toBe(object);
  for (const url of ['/score', '/v1/score']) expect(output.get(url)?.data).toHaveLength(2);
  for (const url of ['/rerank', '/v1/rerank']) expect(output.get(url)?.results).toHaveLength(2);
  expect(output.get('/v1/embeddings')?.data).toMatchObject([{ object: 'embedding' }]);
  expect(output.get('/v1/audio/transcriptions')?.text).toEqual(expect.any(String));
  const list = batch('list');
  await list.exited;
  expect(list.output()).toMatch(/completed +8\/8 .* \*/);
});

it('says which lines are not in order', async () => {
  await writeFile(file(), `${line('a')}\n${line('a')}\n`);
  const child = batch('run', file());
  expect((await child.exited).code).toBe(1);
  expect(child.output()).toContain('line 2: custom_id: "a" is also that of a line before.');
});

it('says what a line of a batch looks like when the file is another', async () => {
  await writeFile(file(), '{"prompt":"x"}\n');
  const child = batch('run', file());
  expect((await child.exited).code).toBe(2);
  expect(child.output()).toContain('the first line is no request of a batch');
});
