import { expect, it } from 'vitest';
import { startTestQueue, type TestQueue } from '../support/test-queue.ts';
import { tokenEntry } from '../support/token-entry.ts';

/** What is done to all jobs that match a filter, over HTTP, in a real queue. */

const road = startTestQueue({
  TOKENS: JSON.stringify([
    tokenEntry('mine', ['submit'], { name: 'me' }),
    tokenEntry('yours', ['submit'], { name: 'you' }),
    tokenEntry('boss', ['submit', 'read', 'admin'], { name: 'boss' }),
  ]),
});

interface Acted {
  jobs: number;
  ids: string[];
  next: string | null;
}

async function act(queue: TestQueue, query: string, token: string) {
  const headers = { authorization: `Bearer ${token}` };
  const response = await queue.ask(query, { method: 'POST', headers });
  return { status: response.status, body: (await response.json()) as Acted & { error: { message: string } } };
}

async function submit(queue: TestQueue, token: string, ids: string[]): Promise<void> {
  const jobs = ids.map((id) => ({
    id,
    job_type: 'chat_completion',
    config_id: 'cfg',
    payload: { messages: [] },
  }));
  const headers = { authorization: `Bearer ${token}` };
  expect((await queue.ask('', { method: 'POST', headers, body: JSON.stringify(jobs) })).status).toBe(200);
}

const names = (prefix: string, count: number) => Array.from({ length: count }, (_, n) => `${prefix}-${n}`);

it('says how many match, cancels exactly these, and has them tried again', async () => {
  const queue = road.queue();
  await submit(queue, 'mine', names('a', 250));
  await submit(queue, 'mine', names('b', 3));
  const dry = await act(queue, '/cancel?id_prefix=a-&dry_run=true', 'mine');
  expect(dry.body).toMatchObject({ jobs: 250, next: null });
  expect(dry.body.ids).toHaveLength(20);
  expect((await act(queue, '/cancel?id_prefix=a-', 'mine')).body).toMatchObject({ jobs: 250, next: null });
  expect((await act(queue, '/cancel?id_prefix=a-', 'mine')).body).toMatchObject({
    jobs: 0,
    ids: [],
    next: null,
  });
  expect((await act(queue, '/cancel?config_id=cfg&dry_run=true', 'mine')).body.jobs).toBe(3);
  // Cancelled is neither failed nor expired.
  expect((await act(queue, '/retry?config_id=cfg&dry_run=true', 'mine')).body.jobs).toBe(0);
}, 60_000);

it('goes on where the request before ended', async () => {
  const queue = road.queue();
  await submit(queue, 'mine', names('c', 1000));
  for (let n = 1; n < 5; n += 1) await submit(queue, 'mine', names(`c${n}`, 1000));
  const first = await act(queue, '/cancel?config_id=cfg', 'mine');
  expect(first.body).toMatchObject({ jobs: 4000, next: expect.any(String) });
  const rest = await act(
    queue,
    `/cancel?config_id=cfg&cursor=${encodeURIComponent(first.body.next!)}`,
    'mine',
  );
  expect(rest.body).toMatchObject({ jobs: 1000, next: null });
}, 120_000);

it("leaves other tenants' jobs alone, but for whoever sees all, and records it", async () => {
  const queue = road.queue();
  await submit(queue, 'mine', names('d', 2));
  expect((await act(queue, '/cancel?config_id=cfg', 'yours')).body.jobs).toBe(0);
  expect((await act(queue, '/cancel?config_id=cfg&tenant=me', 'boss')).body.jobs).toBe(2);
  const audit = await fetch(`${road.url}/api/audit?action=jobs.cancel`, {
    headers: { authorization: 'Bearer boss' },
  });
  const { entries } = (await audit.json()) as { entries: object[] };
  expect(entries[0]).toMatchObject({
    actor: 'boss',
    target: 'config_id=cfg&tenant=me',
    after: { jobs: 2 },
    outcome: 'done',
  });
});

it.each([
  ['/cancel', 'name at least one filter'],
  ['/cancel?state=failed', 'expected pending or leased'],
  ['/retry?sate=failed', 'there is no such parameter'],
  ['/retry?state=failed&cursor=x', 'cursor'],
  ['/retry?state=failed&dry_run=1', 'dry_run'],
])('refuses %s', async (query, message) => {
  const { status, body } = await act(road.queue(), query, 'mine');
  expect([status, body.error.message]).toEqual([400, expect.stringContaining(message)]);
});
