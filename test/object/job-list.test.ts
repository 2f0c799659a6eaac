import { expect, it } from 'vitest';
import type { JobView } from '../../src/protocol/index.ts';
import { startTestQueue, type TestQueue } from '../support/test-queue.ts';
import { tokenEntry } from '../support/token-entry.ts';

/** Lists of jobs, and lines of jobs, over HTTP, in a real queue. */

const road = startTestQueue({
  TOKENS: JSON.stringify([
    tokenEntry('mine', ['submit', 'worker'], { name: 'me' }),
    tokenEntry('yours', ['submit'], { name: 'you' }),
    tokenEntry('reads', ['read'], { name: 'all' }),
  ]),
});

const job = { job_type: 'chat_completion', config_id: 'cfg', payload: { messages: [] } };
const bearer = (token: string) => ({ headers: { authorization: `Bearer ${token}` } });

interface Page {
  jobs: (Partial<JobView> & { id: string })[];
  next: string | null;
}

async function page(queue: TestQueue, query = '', init: RequestInit = {}): Promise<Page> {
  const response = await queue.ask(query, init);
  expect(response.status).toBe(200);
  return (await response.json()) as Page;
}

async function submit(queue: TestQueue, ...ids: string[]): Promise<void> {
  const body = JSON.stringify(ids.map((id) => ({ ...job, id })));
  expect((await queue.ask('', { method: 'POST', body })).status).toBe(200);
}

it('lists the jobs of a tenant, newest first, filtered and page by page', async () => {
  const queue = road.queue('mine');
  await submit(queue, 'a', 'b', 'c');
  await queue.ask('', { method: 'POST', body: JSON.stringify({ ...job, id: 'theirs' }), ...bearer('yours') });
  await queue.ask('/b', { method: 'DELETE' });
  const first = await page(queue, '?limit=2');
  expect(first.jobs.map(({ id, state }) => [id, state])).toEqual([
    ['c', 'pending'],
    ['b', 'cancelled'],
  ]);
  expect(first.jobs[0]).not.toHaveProperty('payload');
  const second = await page(queue, `?limit=2&cursor=${first.next}`);
  expect([second.jobs.map(({ id }) => id), second.next]).toEqual([['a'], null]);
  expect((await page(queue, '?state=cancelled&config_id=cfg&job_type=chat_completion')).jobs).toHaveLength(1);
  expect((await page(queue, '', bearer('yours'))).jobs.map(({ id }) => id)).toEqual(['theirs']);
  expect((await page(queue, '', bearer('reads'))).jobs).toHaveLength(4);
  const hourAgo = new Date(Date.now() - 3_600_000).toISOString();
  expect((await page(queue, `?since=${hourAgo}`)).jobs).toHaveLength(3);
  expect((await page(queue, `?until=${hourAgo}`)).jobs).toEqual([]);
});

it.each(['?limit=0', '?limit=1000', '?state=done', '?since=yesterday', '?cursor=x', '?stat=failed'])(
  'answers 400 to %s',
  async (query) => {
    expect((await road.queue('mine').ask(query)).status).toBe(400);
  },
);

it('takes a line a job, and names each line that is none', async () => {
  const queue = road.queue('mine');
  const line = (id: string, more = {}) => JSON.stringify({ ...job, id, ...more });
  const body = [
    '',
    line('one'),
    '{"id": nonsense',
    '   ',
    line('two', { job_type: 7 }),
    line('one'),
    line('three'),
  ].join('\r\n');
  const headers = { 'content-type': 'application/x-ndjson' };
  const response = await queue.ask('', {
    method: 'POST',
    headers: { ...bearer('mine').headers, ...headers },
    body,
  });
  expect([response.status, response.headers.get('content-type')]).toEqual([200, 'application/x-ndjson']);
  const lines = (await response.text())
    .trimEnd()
    .split('\n')
    .map((text) => JSON.parse(text));
  expect(lines).toMatchObject([
    { line: 2, job: { id: 'one', state: 'pending' } },
    {
      line: 3,
      error: {
        status: 400,
        code: 'invalid_json',
        message: expect.stringContaining('The line is not valid JSON'),
      },
    },
    { line: 5, error: { status: 400, code: 'invalid_job' } },
    { line: 6, job: { id: 'one' } },
    { line: 7, job: { id: 'three' } },
  ]);
  expect((await page(queue)).jobs.map(({ id }) => id)).toEqual(['three', 'one']);
});

it('takes 10,000 lines and no more, and not none', async () => {
  const queue = road.queue('mine');
  const post = (body: string) =>
    queue.ask('', {
      method: 'POST',
      headers: { ...bearer('mine').headers, 'content-type': 'application/jsonl' },
      body,
    });
  const lines = (count: number) => `${JSON.stringify({ ...job, deadline_seconds: 60 })}\n`.repeat(count);
  const taken = await post(lines(2500));
  const told = (await taken.text())
    .trimEnd()
    .split('\n')
    .map((text) => JSON.parse(text));
  expect([told.length, told.at(-1).line, told.filter(({ job }) => job).length]).toEqual([2500, 2500, 2500]);
  expect((await post('\n \n')).status).toBe(400);
  expect((await post(lines(10_001))).status).toBe(400);
});

it('has no stream of all settlements: "events" is the id of a job like any other', async () => {
  const queue = road.queue('mine');
  expect((await queue.ask('/events')).status).toBe(404);
  await submit(queue, 'events');
  expect(await (await queue.ask('/events')).json()).toMatchObject({ id: 'events', state: 'pending' });
});
