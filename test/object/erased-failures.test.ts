import OpenAI from 'openai';
import { expect, it } from 'vitest';
import { filesWith } from '../support/on-disk.ts';
import { until } from '../support/poll.ts';
import { RawWorker } from '../support/raw-worker.ts';
import { startTestQueue } from '../support/test-queue.ts';
import { tokenEntry } from '../support/token-entry.ts';

/** What a queue still has of responses in the background that failed, or could not be stored. */
const road = startTestQueue({
  TOKENS: JSON.stringify([
    tokenEntry('operator', ['admin']),
    tokenEntry('worker', ['worker']),
    tokenEntry('owner', ['submit'], { tenant: 'a' }),
    tokenEntry('full', ['submit'], { tenant: 'a', stored_bytes: 1 }),
  ]),
});

const WORD = 'Xylophonkonzert';

const client = (apiKey: string, queue: string) =>
  new OpenAI({
    ...{ baseURL: `${road.url}/v1`, apiKey, maxRetries: 0 },
    defaultHeaders: { 'x-queue-id': queue },
  });

async function seen<T = unknown>(queue: string, path: string): Promise<{ status: number; body: T }> {
  const headers = { authorization: 'Bearer operator', 'x-queue-id': queue };
  const answer = await fetch(road.url + path, { headers });
  return { status: answer.status, body: (await answer.json()) as T };
}

async function worker(queue: string): Promise<RawWorker> {
  return await (await new RawWorker(road.url, 'worker').connect(queue)).register('w');
}

it('nothing that quotes the input is left of one that failed and was deleted', async () => {
  const queue = road.newQueue();
  const played = await worker(queue);
  const { responses } = client('owner', queue);
  const word = `${WORD}-failed`;
  const { id } = await responses.create({ model: 'tiny', input: word, background: true });
  const { job_id, fence_token } = await played.job();
  const body = { error: { message: `cannot say ${word}` } };
  const failure = { error: `the engine cannot say ${word}`, code: 'engine_refused', http_status: 400, body };
  played.send({ type: 'job_error', job_id, fence_token, ...failure });
  await until(async () => (await responses.retrieve(id)).status === 'failed', 'it has failed');
  const pages = [`/api/jobs/${id}`, `/api/jobs/${id}/ledger`, `/api/requests?id=${id}`, '/api/jobs'];
  await until(async () => {
    const all = await Promise.all(pages.map((path) => seen(queue, path)));
    return all.every(({ body }) => JSON.stringify(body).includes(word));
  }, 'all that is told of it quotes the input');

  await responses.delete(id);
  for (const path of pages) {
    const { status, body } = await seen(queue, path);
    expect(status).toBe(200);
    expect(JSON.stringify(body)).toContain('engine_refused');
    expect(JSON.stringify(body)).not.toContain(word);
  }
  // The logs of the databases are written into them, and end.
  await road.restart();
  expect(filesWith(road.stateDir, word)).toEqual([]);
});

it.each([
  { what: 'in a row', repeat: 10 },
  { what: 'in a file', repeat: 20_000 },
])('nothing is left of one that could not be stored, whose input lay $what', async ({ repeat }) => {
  const queue = road.newQueue();
  await worker(queue);
  await client('owner', queue).conversations.create({ items: [{ role: 'user', content: 'I fill it.' }] });
  const word = `${WORD}-${repeat}`;
  const refused = client('full', queue).responses.create({
    model: 'tiny',
    input: `${word} `.repeat(repeat),
    background: true,
  });
  await expect(refused).rejects.toMatchObject({ status: 429, code: 'storage_limit_exceeded' });
  const { jobs } = (await seen<{ jobs: { id: string; state: string }[] }>(queue, '/api/jobs')).body;
  expect(jobs).toEqual([expect.objectContaining({ state: 'cancelled' })]);
  expect((await seen(queue, `/api/jobs/${jobs[0]!.id}/payload`)).status).toBe(404);
  await road.restart();
  expect(filesWith(road.stateDir, word)).toEqual([]);
});
