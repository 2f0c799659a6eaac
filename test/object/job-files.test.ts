import { globSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import type { JobView } from '../../src/protocol/index.ts';
import { until } from '../support/poll.ts';
import type { JobFrame, RawWorker } from '../support/raw-worker.ts';
import { startTestQueue, type TestQueue } from '../support/test-queue.ts';

/** Large payloads and results, and a queue whose process is killed at any moment between their steps. */
const MIB = 1024 * 1024;
const TEXT = `🙂${'x'.repeat(2 * MIB)}`;
const RESULT = `🙂${'y'.repeat(2 * MIB)}`;
const road = startTestQueue();

function submit(queue: TestQueue, id: string, text = TEXT): Promise<Response> {
  const job = { id, job_type: 'chat_completion', config_id: 'cfg', payload: { messages: [], text } };
  return queue.ask('', { method: 'POST', body: JSON.stringify(job) });
}

async function submitted(queue: TestQueue, id: string): Promise<void> {
  const response = await submit(queue, id);
  await response.text();
  expect(response.status).toBe(201);
}

async function payloadOf(queue: TestQueue, id: string): Promise<string> {
  const { text } = (await (await queue.ask(`/${id}/payload`)).json()) as { text: string };
  return text;
}

async function resultOf(queue: TestQueue, id: string): Promise<string> {
  const { state, result } = (await (await queue.ask(`/${id}?wait=30`)).json()) as JobView;
  expect(state).toBe('succeeded');
  return (result as { text: string }).text;
}

async function put(frame: JobFrame, text = RESULT): Promise<number> {
  const address = new URL(String(frame.result_upload_url), `${road.url}/`);
  const response = await fetch(address, { method: 'PUT', body: JSON.stringify({ text }) });
  await response.text();
  return response.status;
}

function announce(worker: RawWorker, { job_id, fence_token }: JobFrame): void {
  worker.send({ type: 'job_result_ref', job_id, fence_token });
}

/** The worker after its connection broke, with the attempts that it holds. */
const back = (queue: TestQueue, ...held: JobFrame[]) =>
  queue.worker('w', { jobs: held.map(({ job_id, fence_token }) => ({ job_id, fence_token })) });

/** Rows of a table, of all queues that have it. @param kind of objects */
function rows(kind: 'queue' | 'files', query: string): Record<string, unknown>[] {
  const found: Record<string, unknown>[] = [];
  for (const path of globSync(join(road.stateDir, 'data', '*', `${kind}.sqlite`))) {
    const database = new DatabaseSync(path);
    try {
      found.push(...database.prepare(query).all());
    } catch (error) {
      if (!/no such table/.test(String(error))) throw error;
    } finally {
      database.close();
    }
  }
  return found;
}

const files = (query: string) => rows('files', query);

it('a payload and a result survive kill -9 after every step that was answered', async () => {
  const queue = road.queue();
  await submitted(queue, 'j');
  await road.killAndRestart();
  expect((await payloadOf(queue, 'j')) === TEXT).toBe(true);
  expect((await submit(queue, 'j')).status).toBe(200);
  expect((await submit(queue, 'j', `${TEXT}!`)).status).toBe(409);

  const frame = await (await queue.worker()).job();
  expect(await put(frame)).toBe(201);
  await road.killAndRestart();
  const worker = await back(queue, frame);
  announce(worker, frame);
  expect(await worker.next('ack')).toMatchObject({ outcome: 'accepted' });
  await road.killAndRestart();
  expect((await resultOf(queue, 'j')) === RESULT).toBe(true);
});

it('killed while payloads come, it has every job whole that it knows, and knows all that it accepted', async () => {
  const queue = road.queue();
  for (let round = 0; round < 4; round++) {
    const ids = Array.from({ length: 6 }, (_, n) => `job-${round}-${n}`);
    const accepted: string[] = [];
    const asked = ids.map(async (id) => {
      const response = await submit(queue, id).catch(() => null);
      if (response?.status === 201) accepted.push(id);
      await response?.text().catch(() => {});
    });
    // Some are through, one is on its way, the others wait for their turn.
    await until(() => accepted.length > round, 'some are accepted');
    await sleep(5 * round);
    await road.killAndRestart();
    await Promise.all(asked);
    for (const id of ids) {
      const known = (await queue.ask(`/${id}`)).status === 200;
      if (accepted.includes(id)) expect(known).toBe(true);
      if (known) expect((await payloadOf(queue, id)) === TEXT).toBe(true);
    }
  }
});

it('a result that was put and that nobody announced is not read, and its file ends', async () => {
  const queue = road.queue();
  await submitted(queue, 'j');
  const first = await (await queue.worker('first')).job();
  expect(await put(first)).toBe(201);
  // The lease is over when the process comes back: the job goes to another worker.
  await road.killAndRestart(() => rows('queue', 'UPDATE jobs SET lease_expires_at = 1'));
  const second = await queue.worker('second');
  const frame = await second.job();
  expect(frame.fence_token).toBeGreaterThan(first.fence_token);
  expect(await put(first)).toBe(409);
  announce(second, frame);
  expect(await second.next('ack')).toMatchObject({ outcome: 'accepted' });
  const again = await second.job(1);
  expect(await put(again, 'of the second')).toBe(201);
  announce(second, again);
  expect(await resultOf(queue, 'j')).toBe('of the second');

  const mine = () => files(`SELECT id FROM files WHERE job = 'j' AND id LIKE 'result-%'`).length;
  expect(mine()).toBeGreaterThan(1);
  const before = mine();
  await road.killAndRestart(() => files('UPDATE files SET expires_at = 1 WHERE job IS NOT NULL'));
  // What comes makes it look.
  await submitted(queue, 'later');
  await until(() => mine() < before, 'the result of the first attempt is gone');
  expect(await resultOf(queue, 'j')).toBe('of the second');
  expect((await payloadOf(queue, 'j')) === TEXT).toBe(true);
});

it('a long result that comes in a frame lies in a file, and what its worker says after it waits', async () => {
  const queue = road.queue();
  const worker = await queue.worker('w', { capacity: 2 });
  await submitted(queue, 'long');
  const frame = await worker.job();
  worker.result(frame, { text: RESULT });
  // Heard first, it would make the job another worker's.
  worker.vanish();
  expect((await resultOf(queue, 'long')) === RESULT).toBe(true);
  const [row] = rows('queue', `SELECT result, result_file FROM jobs WHERE id = 'long'`);
  expect(row).toMatchObject({ result: null, result_file: expect.stringMatching(/^result-/) });
  await road.killAndRestart();
  expect((await resultOf(queue, 'long')) === RESULT).toBe(true);
  const bare = (await (await queue.ask('/long?result=0')).json()) as JobView;
  expect([bare.result, 'result_file' in bare]).toEqual([null, false]);
});
