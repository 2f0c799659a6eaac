import { describe, expect, it } from 'vitest';
import { until } from '../support/poll.ts';
import { type RawCaller, rawCaller } from '../support/raw-caller.ts';
import { ANSWERED_FIRST, type JobFrame, RawWorker, REFUSED_FIRST } from '../support/raw-worker.ts';
import { startTestQueue } from '../support/test-queue.ts';

/** What a caller may say about its request, and what it hears meanwhile, in a real queue; the worker is played. */
const road = startTestQueue({ REQUEST_TIMEOUTS: '/v1/embeddings=1' });

async function worker(queue: string, more = {}): Promise<RawWorker> {
  return await (await new RawWorker(road.url).connect(queue)).register('w', more);
}

function ask(queue: string, headers: Record<string, string>, path = '/v1/chat/completions', body = {}) {
  return fetch(road.url + path, {
    method: 'POST',
    headers: { 'x-queue-id': queue, ...headers },
    body: JSON.stringify({ model: 'tiny', ...body }),
  });
}

/** What the engine is asked for. */
function headersOf(job: JobFrame): Record<string, string> {
  return (job.payload as { headers?: Record<string, string> }).headers ?? {};
}

function answerShortly(played: RawWorker, job: JobFrame): void {
  played.answerJson(job);
  played.result(job);
}

describe('the id of a request', () => {
  it('goes to the engine and comes back, from a header or from the body, also twice at the same time', async () => {
    const queue = road.newQueue();
    const played = await worker(queue, { capacity: 4 });
    const asked = [
      ask(queue, { 'x-request-id': 'mine' }),
      ask(queue, { 'x-request-id': 'mine' }),
      ask(queue, {}, '/v1/chat/completions', { request_id: 'in-body' }),
      ask(queue, {}),
    ];
    const jobs = await Promise.all([0, 1, 2, 3].map((index) => played.job(index)));
    expect(new Set(jobs.map(({ job_id }) => job_id)).size).toBe(4);
    for (const job of jobs) answerShortly(played, job);
    const responses = await Promise.all(asked);
    const ids = responses.map((response) => response.headers.get('x-request-id'));
    expect(ids.slice(0, 3)).toEqual(['mine', 'mine', 'in-body']);
    expect(ids[3]).toBe(responses[3]?.headers.get('x-job-id'));
    const ofEngine = jobs.map((job) => headersOf(job)['x-request-id']);
    expect(ofEngine.toSorted()).toEqual(['in-body', 'mine', 'mine', undefined].toSorted());
    const jobId = responses[2]?.headers.get('x-job-id');
    const ledger = await fetch(`${road.url}/api/jobs/${jobId}/ledger`, { headers: { 'x-queue-id': queue } });
    expect(await ledger.text()).toContain('request in-body');
  });

  it('comes back under the name that Anthropic’s clients look for too', async () => {
    const queue = road.newQueue();
    const played = await worker(queue);
    const answered = ask(queue, { 'x-request-id': 'mine' }, '/v1/messages');
    answerShortly(played, await played.job());
    const response = await answered;
    expect([response.status, response.headers.get('request-id')]).toEqual([200, 'mine']);
  });

  it('comes back with refusals of the queue and of the engine', async () => {
    const queue = road.newQueue();
    // Nobody is there to wait for.
    const refused = await ask(queue, { 'x-request-id': 'a', ...REFUSED_FIRST });
    expect([refused.status, refused.headers.get('x-request-id')]).toEqual([404, 'a']);
    const played = await worker(queue);
    const answered = ask(queue, { 'x-request-id': 'b', ...ANSWERED_FIRST });
    const stream = (await played.job()).stream_id as number;
    played.answer(
      { type: 'head', stream, head: { status: 400, headers: { 'content-type': 'application/json' } } },
      { type: 'end', stream, size: 0 },
    );
    const response = await answered;
    expect([response.status, response.headers.get('x-request-id')]).toEqual([400, 'b']);
    expect(response.headers.get('x-job-id')).toBeTruthy();
  });
});

it('a web page of this machine may read an answer', async () => {
  const queue = road.newQueue();
  const played = await worker(queue);
  const origin = 'http://localhost:3000';
  const answered = ask(queue, { origin, 'x-request-id': 'mine', ...ANSWERED_FIRST });
  answerShortly(played, await played.job());
  const response = await answered;
  expect([response.status, await response.text()]).toEqual([200, '{}']);
  expect(response.headers.get('access-control-allow-origin')).toBe(origin);
  expect(response.headers.get('x-request-id')).toBe('mine');
});

describe('a time limit', () => {
  it.each([
    ['of the caller', { 'x-request-timeout': '1' }, '/v1/chat/completions'],
    ['of the route', {}, '/v1/embeddings'],
  ])(
    '%s ends a request that runs with 504, which says where the time went',
    async (_whose, headers, path) => {
      const queue = road.newQueue();
      const played = await worker(queue);
      const answered = ask(queue, headers, path);
      const job = await played.job();
      expect(job.deadline_ms).toBeUndefined();
      const response = await answered;
      const { error } = (await response.json()) as { error: { message: string; code: string } };
      expect([response.status, error.code]).toEqual([504, 'deadline']);
      expect(error.message).toMatch(/waited 0\.\d s for a slot and ran \d\.\d s on worker w/);
      expect(await played.next('job_revoked')).toMatchObject({ job_id: job.job_id });
    },
  );

  it('ends a request that waits, and a stream that has begun', async () => {
    const [busy, other] = [road.newQueue(), road.newQueue()];
    await worker(other);
    const running = ask(other, { 'x-request-timeout': '6' }, '/v1/messages', { stream: true });
    const played = await worker(busy);
    await rawCaller(road.url, '/v1/chat/completions', { model: 'tiny' }, { 'x-queue-id': busy });
    await played.job();
    const waiting = await ask(busy, { 'x-request-timeout': '1' });
    expect(waiting.status).toBe(504);
    expect(await waiting.text()).toMatch(/waited [1-9]\d*\.\d s for a slot and got none/);
    const text = await (await running).text();
    expect(text).toMatch(/event: error\ndata: \{"type":"error","error":\{"type":"timeout_error",.*ran \d/);
  });

  it('that is no number of seconds is refused', async () => {
    const response = await ask('q', { 'x-request-timeout': 'soon' });
    expect([response.status, await response.text()]).toEqual([
      400,
      expect.stringContaining('X-Request-Timeout'),
    ]);
  });
});

it('callers of streams hear their place while they wait', async () => {
  const queue = road.newQueue();
  const played = await worker(queue);
  const body = { model: 'tiny', stream: true };
  const call = () => rawCaller(road.url, '/v1/chat/completions', body, { 'x-queue-id': queue });
  await call();
  const first = await played.job();
  const callers: RawCaller[] = [];
  for (const place of [1, 2]) {
    callers.push(await call());
    await until(async () => {
      const health = await fetch(`${road.url}/health`, { headers: { 'x-queue-id': queue } });
      return ((await health.json()) as { pending: number }).pending === place;
    }, 'it waits');
  }
  await until(() => callers[0]?.heard().includes(': waiting, place 1 of 2'), 'the first hears its place');
  await until(() => callers[1]?.heard().includes(': waiting, place 2 of 2'), 'the second hears its place');
  answerShortly(played, first);
  await until(
    () => callers[1]?.heard().includes(': waiting, place 1 of 1'),
    'the second hears its new place',
  );
  for (const caller of callers) caller.close();
});
