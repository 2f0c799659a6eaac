import { describe, expect, it } from 'vitest';
import type { LedgerView } from '../../src/protocol/index.ts';
import { until } from '../support/poll.ts';
import { ANSWERED_FIRST, RawWorker, REFUSED_FIRST } from '../support/raw-worker.ts';
import { startTestQueue } from '../support/test-queue.ts';

/** What a queue keeps and how much: ledger, bounds and retention in a real queue. */

const BOUNDS = { QUEUE_IDS: 'bounds-*', MAX_PENDING: '3', MAX_WAITING: '1' };
const road = startTestQueue(BOUNDS);

let queueNumber = 0;
const newQueue = () => `bounds-${++queueNumber}`;

async function ask(queue: string, method: string, path: string, body?: unknown) {
  const response = await fetch(road.url + path, {
    method,
    headers: { 'x-queue-id': queue, ...REFUSED_FIRST },
    body: JSON.stringify(body),
  });
  return { response, body: (await response.json()) as Record<string, unknown> };
}
const chat = (id: string) => ({
  id,
  job_type: 'chat_completion',
  config_id: 'cfg',
  payload: { messages: [] },
});
const errorOf = (body: Record<string, unknown>) => body.error as { code: string; message: string };

describe('the ledger route', () => {
  it('tells what happened to a job over two workers, and that a request of a waiting caller has none', async () => {
    const queue = newQueue();
    const first = await (await new RawWorker(road.url).connect(queue)).register('first');
    await ask(queue, 'POST', '/api/jobs', chat('twice'));
    const job = await first.job();
    const second = await (await new RawWorker(road.url).connect(queue)).register('second');
    first.send({ type: 'drain' });
    first.send({ type: 'job_release', job_id: 'twice', fence_token: job.fence_token, reason: 'draining' });
    second.result(await second.job());
    await second.next('ack');
    const { response, body } = await ask(queue, 'GET', '/api/jobs/twice/ledger');
    expect(response.status).toBe(200);
    const { job_id, steps } = body as unknown as LedgerView;
    expect(job_id).toBe('twice');
    expect(steps.map(({ step, worker_id }) => [step, worker_id])).toEqual([
      ['submitted', null],
      ['dispatched', 'first'],
      ['released', 'first'],
      ['dispatched', 'second'],
      ['settled', 'second'],
    ]);
    const missing = await ask(queue, 'GET', '/api/jobs/nobody/ledger');
    expect(missing.response.status).toBe(404);
    expect(errorOf(missing.body).message).toContain('those of the newest 1,000 are kept in memory');
  });
});

describe('a full queue', () => {
  it('refuses a submission with 429 and a time to come back, in an array job by job', async () => {
    const queue = newQueue();
    const many = await ask(queue, 'POST', '/api/jobs', ['a', 'b', 'c', 'd'].map(chat));
    expect(many.response.status).toBe(200);
    const answers = many.body as unknown as { job?: unknown; error?: Record<string, unknown> }[];
    expect(answers.map((answer) => answer.error?.code ?? 'stored')).toEqual([
      'stored',
      'stored',
      'stored',
      'queue_full',
    ]);
    expect(answers[3]?.error).toMatchObject({ status: 429, retry_after_seconds: expect.any(Number) });
    const { response, body } = await ask(queue, 'POST', '/api/jobs', chat('e'));
    expect(response.status).toBe(429);
    expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0);
    expect(errorOf(body)).toMatchObject({ code: 'queue_full', type: 'rate_limit_error' });
    expect((await ask(queue, 'POST', '/api/jobs', chat('a'))).response.status).toBe(200);
  });

  it('refuses a caller with 429 when enough wait for a slot', async () => {
    const queue = newQueue();
    const worker = await (await new RawWorker(road.url).connect(queue)).register('w');
    const body = { model: 'tiny', messages: [] };
    const hangUp = new AbortController();
    const waiting = [1, 2].map(() =>
      fetch(`${road.url}/v1/chat/completions`, {
        method: 'POST',
        headers: { 'x-queue-id': queue },
        body: JSON.stringify(body),
        signal: hangUp.signal,
      }).catch(() => 'hung up'),
    );
    await worker.job();
    await until(async () => (await ask(queue, 'GET', '/health')).body.pending === 1, 'one caller waits');
    const { response, body: refused } = await ask(queue, 'POST', '/v1/chat/completions', body);
    expect(response.status).toBe(429);
    expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0);
    expect(errorOf(refused).code).toBe('queue_full');
    hangUp.abort();
    expect(await Promise.all(waiting)).toEqual(['hung up', 'hung up']);
  });
});

describe('a caller with a deadline', () => {
  it('hears at once that no worker can meet it', async () => {
    const queue = newQueue();
    const worker = await (await new RawWorker(road.url).connect(queue)).register('w');
    const answered = fetch(`${road.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'x-queue-id': queue, 'x-queue-deadline': '20', ...ANSWERED_FIRST },
      body: JSON.stringify({ model: 'tiny', messages: [], stream: true }),
    });
    const job = await worker.job();
    expect(job.deadline_ms).toBeGreaterThan(0);
    expect(job.deadline_ms).toBeLessThanOrEqual(20_000);
    // What the gateway learns first, the queue or the relay, is for chance to say.
    worker.send({
      type: 'job_release',
      job_id: job.job_id,
      fence_token: job.fence_token,
      reason: 'deadline',
    });
    const reason = { message: 'too busy', code: 'deadline', retryable: true };
    worker.answer({ type: 'broken', stream: job.stream_id as number, reason });
    const response = await answered;
    expect(response.status).toBe(503);
    expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0);
    const { error } = (await response.json()) as { error: { message: string } };
    expect(error).toMatchObject({ code: 'deadline', message: expect.stringContaining('deadline') });
  });
});

describe('retention', () => {
  it('forgets a settled job by alarm, and its id may be used for another one', {
    timeout: 60_000,
  }, async () => {
    await road.restart({ ...BOUNDS, RETENTION_SECONDS: '1' });
    const queue = newQueue();
    await ask(queue, 'POST', '/api/jobs', chat('old'));
    await ask(queue, 'DELETE', '/api/jobs/old');
    await until(
      async () => (await ask(queue, 'GET', '/api/jobs/old')).response.status === 404,
      'the job is forgotten',
    );
    const anew = { ...chat('old'), payload: { messages: [{ role: 'user', content: 'another' }] } };
    expect((await ask(queue, 'POST', '/api/jobs', anew)).response.status).toBe(201);
  });
});
