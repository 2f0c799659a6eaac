import { expect, it } from 'vitest';
import type { JobView } from '../../src/protocol/index.ts';
import { until } from '../support/poll.ts';
import { tokenEntry } from '../support/token-entry.ts';
import { startTestWorkerd, type TestQueue } from '../support/workerd-queue.ts';

/** Lists of jobs, lines of jobs and the events of their settlements, over HTTP, in a real workerd. */

const workerd = startTestWorkerd({
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

/** Server-sent events, as they come. */
class Events {
  readonly events: { id: string | null; event: string; data: Record<string, unknown> }[] = [];
  lastId = '';
  status = 0;
  isOver = false;
  text = '';
  readonly #leave = new AbortController();

  async open(
    queue: TestQueue,
    { after, query = '', token = 'mine' }: { after?: string; query?: string; token?: string } = {},
  ) {
    const headers = {
      authorization: `Bearer ${token}`,
      ...(after !== undefined && { 'last-event-id': after }),
    };
    const response = await queue.ask(`/events${query}`, { headers, signal: this.#leave.signal });
    this.status = response.status;
    void this.#read(response)
      .catch(() => {})
      .finally(() => {
        this.isOver = true;
      });
    return this;
  }

  leave(): void {
    this.#leave.abort();
  }

  /** The ids of jobs, once there are so many. */
  async jobs(count: number): Promise<unknown[]> {
    const settled = () => this.events.filter(({ event }) => event === 'settled');
    await until(() => settled().length >= count, `${count} settlements`);
    return settled().map(({ data }) => data.id);
  }

  async #read(response: Response): Promise<void> {
    let rest = '';
    const decoder = new TextDecoder();
    for await (const piece of response.body!) {
      rest += decoder.decode(piece as Uint8Array, { stream: true });
      this.text += decoder.decode(piece as Uint8Array);
      const blocks = rest.split('\n\n');
      rest = blocks.pop()!;
      for (const block of blocks) this.#take(block);
    }
  }

  #take(block: string): void {
    const field = (name: string) => new RegExp(`^${name}: (.*)$`, 'm').exec(block)?.[1] ?? null;
    this.lastId = field('id') ?? this.lastId;
    const data = field('data');
    if (data)
      this.events.push({ id: field('id'), event: field('event') ?? 'message', data: JSON.parse(data) });
  }
}

it('lists the jobs of a tenant, newest first, filtered and page by page', async () => {
  const queue = workerd.queue('mine');
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
    expect((await workerd.queue('mine').ask(query)).status).toBe(400);
  },
);

it('takes a line a job, and names each line that is none', async () => {
  const queue = workerd.queue('mine');
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
  const queue = workerd.queue('mine');
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

it('tells settlements as they come, those of the tenant alone', async () => {
  const queue = workerd.queue('mine');
  const [mine, theirs, all] = await Promise.all(
    ['mine', 'yours', 'reads'].map((token) => new Events().open(queue, { token })),
  );
  await submit(queue, 'a', 'b');
  const worker = await queue.worker('w', { capacity: 2 });
  worker.result(await worker.job());
  await mine!.jobs(1);
  await queue.ask('/b', { method: 'DELETE' });
  expect(await mine!.jobs(2)).toEqual(['a', 'b']);
  expect(mine!.events).toMatchObject([
    { id: '1', data: { id: 'a', state: 'succeeded', worker_id: 'w', error: null } },
    { id: '2', data: { id: 'b', state: 'cancelled', error: { code: 'cancelled' } } },
  ]);
  expect(mine!.events[0]!.data).not.toHaveProperty('result');
  expect(await all!.jobs(2)).toEqual(['a', 'b']);
  expect(theirs!.events).toEqual([]);
  for (const events of [mine, theirs, all]) events!.leave();
});

it('misses nothing over a reconnect and a restart of the queue', async () => {
  const queue = workerd.queue('mine');
  const settle = async (id: string) => {
    await submit(queue, id);
    await queue.ask(`/${id}`, { method: 'DELETE' });
  };
  const first = await new Events().open(queue);
  await settle('a');
  await first.jobs(1);
  first.leave();
  await settle('b');
  await workerd.restart();
  await settle('c');
  const second = await new Events().open(queue, { after: first.lastId });
  await settle('d');
  expect(await second.jobs(3)).toEqual(['b', 'c', 'd']);
  const fromTheBeginning = await new Events().open(queue, { query: '?after=0' });
  expect(await fromTheBeginning.jobs(4)).toEqual(['a', 'b', 'c', 'd']);
  await workerd.restart();
  await until(() => second.isOver, 'the stream ends with its queue');
});

it('tells a reader its place before anything is settled, and keeps the stream alive', async () => {
  const queue = workerd.queue('mine');
  const events = await new Events().open(queue);
  await until(() => events.lastId === '0' && events.text.includes(': keep-alive'), 'the first comment');
  await until(() => events.text.split(': keep-alive').length > 2, 'the second comment');
  events.leave();
});

it('filters by pool, and says what was forgotten', async () => {
  await workerd.restart({ RETENTION_SECONDS: '1' });
  const queue = workerd.queue();
  await queue.ask('', { method: 'POST', body: JSON.stringify({ ...job, id: 'old' }) });
  await queue.ask('/old', { method: 'DELETE' });
  await until(async () => (await queue.ask('/old')).status === 404, 'the job is forgotten');
  const events = await new Events().open(queue, { after: '0', query: '?config_id=other' });
  await until(() => events.events.length > 0, 'the gap');
  expect(events.events).toMatchObject([
    { id: null, event: 'gap', data: { reason: expect.stringContaining('forgotten') } },
  ]);
  await queue.ask('', {
    method: 'POST',
    body: JSON.stringify([
      { ...job, id: 'here' },
      { ...job, id: 'there', config_id: 'other' },
    ]),
  });
  await queue.ask('/here', { method: 'DELETE' });
  await queue.ask('/there', { method: 'DELETE' });
  expect(await events.jobs(1)).toEqual(['there']);
  const stranger = await new Events().open(queue, { after: '999' });
  await until(() => stranger.events.length > 0, 'the gap');
  expect(stranger.events[0]).toMatchObject({
    event: 'gap',
    data: { reason: expect.stringContaining('state') },
  });
  for (const one of [events, stranger]) one.leave();
});

it('answers 400 to a last event that is none', async () => {
  expect((await new Events().open(workerd.queue(), { after: 'x' })).status).toBe(400);
});
