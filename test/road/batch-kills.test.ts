import OpenAI, { toFile } from 'openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { chatText } from '../soak/engine-text.ts';
import { childrenOf, commandLine, signal } from '../soak/proc.ts';
import { until } from '../support/poll.ts';
import {
  engineRunning,
  HELD,
  killQueue,
  type QueueProcess,
  readyWorker,
  setPace,
  startQueue,
  tearDown,
  type WorkerProcess,
} from '../support/road.ts';

/** Batches while the queue's process, or a worker's, is killed in the middle of each of their steps. */
let queue: QueueProcess;
let worker: WorkerProcess;

const TOKENS = 24;
const SLOTS = { engineArgs: HELD, env: { CASOLA_MAX_JOBS: '4' } };
const QUICK_MS = 5;

beforeAll(async () => {
  queue = await startQueue();
  worker = await readyWorker(queue.url, 'first', SLOTS);
});
afterAll(tearDown);

const client = () => new OpenAI({ baseURL: `${queue.url}/v1`, apiKey: 'none', maxRetries: 0 });
const messagesOf = (customId: string) => [{ role: 'user' as const, content: `What is ${customId}?` }];

async function create(lines: number): Promise<OpenAI.Batch> {
  const texts = Array.from({ length: lines }, (_, n) => {
    const body = { model: 'tiny', messages: messagesOf(`line-${n}`), max_tokens: TOKENS, ignore_eos: true };
    return JSON.stringify({ custom_id: `line-${n}`, method: 'POST', url: '/v1/chat/completions', body });
  });
  const file = await toFile(new TextEncoder().encode(texts.join('\n')), 'in.jsonl');
  const { id } = await client().files.create({ file, purpose: 'batch' });
  return await client().batches.create({
    input_file_id: id,
    endpoint: '/v1/chat/completions',
    completion_window: '24h',
  });
}

const retrieve = (id: string) => client().batches.retrieve(id);
const done = async (id: string) => (await retrieve(id)).request_counts!.completed;
const become = (id: string, status: string) =>
  until(
    async () => {
      const batch = await retrieve(id);
      return batch.status === status ? batch : null;
    },
    `batch ${status}`,
    { timeoutMs: 120_000 },
  );

async function restartQueue(): Promise<void> {
  await killQueue(queue);
  queue = await startQueue({ port: queue.port, stateDir: queue.stateDir });
}

/** Its own process, below its supervisor; another takes its place, whose engine is held as the first one is at its start. */
async function killWorker(): Promise<void> {
  const { pid } = worker.process;
  signal(childrenOf(pid).find((child) => commandLine(child).includes('programs/worker.js'))!, 'SIGKILL');
  worker = await readyWorker(queue.url, 'second', SLOTS);
}

/** Every line once, each of one file with all of what the engine said. */
async function written(batch: OpenAI.Batch): Promise<{ ids: string[]; answered: number }> {
  const ids: string[] = [];
  let answered = 0;
  for (const id of [batch.output_file_id, batch.error_file_id]) {
    if (!id) continue;
    const text = await (await client().files.content(id)).text();
    expect(text.endsWith('\n')).toBe(true);
    expect((await client().files.retrieve(id)).bytes).toBe(Buffer.byteLength(text));
    for (const line of text.trimEnd().split('\n')) {
      const { custom_id, response, error } = JSON.parse(line);
      ids.push(custom_id);
      if (id === batch.error_file_id) {
        expect(error).toMatchObject({ code: 'batch_cancelled' });
        continue;
      }
      answered += 1;
      expect(response.body.choices[0].message.content).toBe(chatText(messagesOf(custom_id), TOKENS, 'tiny'));
    }
  }
  return { ids: ids.sort(), answered };
}

const idsOf = (lines: number) => Array.from({ length: lines }, (_, n) => `line-${n}`).sort();

describe('a batch whose queue and workers are killed', () => {
  it('writes every line once, whichever step is hit', async () => {
    const lines = 160;
    const { id, status } = await create(lines);
    expect(status).toBe('validating');
    await restartQueue();
    await until(async () => (await engineRunning(worker.engineUrl)) > 0, 'the first lines run');
    await restartQueue();
    await setPace(worker.engineUrl, QUICK_MS);
    await until(async () => (await done(id)) >= lines / 4, 'lines are collected');
    await setPace(worker.engineUrl, 2000);
    await restartQueue();
    await until(async () => (await engineRunning(worker.engineUrl)) > 1, 'lines run again');
    await killWorker();
    await setPace(worker.engineUrl, QUICK_MS);
    await until(async () => (await done(id)) >= lines / 2, 'half is done');
    await restartQueue();
    // The last step is too short to be met for certain: it is, or what comes just before or after it.
    await until(async () => (await done(id)) >= lines - 3, 'almost all is done', { everyMs: 2 });
    await restartQueue();
    const batch = await become(id, 'completed');
    expect(batch.request_counts).toEqual({ total: lines, completed: lines, failed: 0 });
    expect(batch.usage).toMatchObject({ output_tokens: lines * TOKENS });
    expect(await written(batch)).toEqual({ ids: idsOf(lines), answered: lines });
  }, 400_000);

  it('keeps what was done when it is cancelled, and leaves no job behind', async () => {
    const lines = 120;
    // So slow that the batch is not over before it is cancelled.
    await setPace(worker.engineUrl, 10 * QUICK_MS);
    const { id } = await create(lines);
    await until(async () => (await done(id)) > 0, 'some lines are done');
    await client().batches.cancel(id);
    await restartQueue();
    const batch = await become(id, 'cancelled');
    const { ids, answered } = await written(batch);
    expect(ids).toEqual(idsOf(lines));
    expect(answered).toBe(batch.request_counts!.completed);
    const health = await (await fetch(`${queue.url}/health`)).json();
    expect(health).toMatchObject({ pending: 0, running: 0 });
  }, 240_000);
});
