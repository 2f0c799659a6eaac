import { expect, it } from 'vitest';
import type { RequestRecord } from '../../src/protocol/index.ts';
import { until } from '../support/poll.ts';
import { startTestQueue } from '../support/test-queue.ts';
import { tokenEntry } from '../support/token-entry.ts';

/** `GET /api/requests` in a real queue; the worker is played. */

const road = startTestQueue({
  TOKENS: JSON.stringify([
    tokenEntry('mine', ['submit', 'worker'], { name: 'me' }),
    tokenEntry('yours', ['submit'], { name: 'you' }),
    tokenEntry('reads', ['read'], { name: 'all' }),
  ]),
});

const headersOf = (queue: string, token: string) => ({
  authorization: `Bearer ${token}`,
  'x-queue-id': queue,
});

async function list(queue: string, query = '', token = 'reads') {
  const response = await fetch(`${road.url}/api/requests${query}`, { headers: headersOf(queue, token) });
  const body = (await response.json()) as {
    requests: RequestRecord[];
    next: string | null;
    error?: { message: string };
  };
  return { status: response.status, ...body };
}

it('lists a live request and a stored job within a second or so, also after a restart, to who may see them', async () => {
  const queue = road.queue('mine');
  const worker = await queue.worker('w', { capacity: 4 });
  const asked = fetch(`${road.url}/v1/embeddings?x=1`, {
    method: 'POST',
    headers: { ...headersOf(queue.id, 'mine'), 'x-request-id': 'named' },
    body: JSON.stringify({ model: 'tiny', input: 'a secret' }),
  });
  const live = await worker.job();
  worker.answerJson(live);
  worker.result(live);
  const response = await asked;
  await response.text();
  const stored = { id: 'stored-1', job_type: 'chat_completion', config_id: 'cfg', payload: { messages: [] } };
  await queue.ask('', { method: 'POST', body: JSON.stringify(stored) });
  worker.result(await worker.job(1));

  await until(async () => (await list(queue.id)).requests.length === 2, 'both are listed');
  const { requests, next } = await list(queue.id);
  expect(next).toBe(null);
  expect(requests).toMatchObject([
    { id: 'stored-1', kind: 'stored', route: 'chat_completion', outcome: 'succeeded' },
    {
      id: response.headers.get('x-job-id'),
      request_id: 'named',
      kind: 'live',
      route: '/v1/embeddings',
      model: 'tiny',
      tenant: 'me',
      token_name: 'me',
      worker_id: 'w',
      outcome: 'succeeded',
    },
  ]);
  expect(JSON.stringify(requests)).not.toContain('secret');

  const ids = async (query: string, token?: string) =>
    (await list(queue.id, query, token)).requests.map(({ id }) => id);
  expect(await ids('?id=named')).toEqual([response.headers.get('x-job-id')]);
  expect(await ids('?kind=stored&outcome=succeeded&worker_id=w&model=&slow=false')).toEqual(['stored-1']);
  expect(await ids('?until=2020-01-01T00:00:00Z')).toEqual([]);
  expect(await ids('', 'mine')).toHaveLength(2);
  expect(await ids('', 'yours')).toEqual([]);
  const first = await list(queue.id, '?limit=1');
  expect(await ids(`?limit=1&cursor=${first.next}`)).toEqual([response.headers.get('x-job-id')]);

  await road.restart();
  expect(await ids('')).toHaveLength(2);
});

it('says what is wrong with a question', async () => {
  const queue = road.newQueue();
  for (const [query, message] of [
    ['?outcom=failed', 'outcom: there is no such parameter'],
    ['?outcome=lost', 'outcome: expected succeeded, failed, cancelled, expired or rejected'],
    ['?slow=1', 'slow: expected true or false'],
    ['?cursor=x', 'cursor: expected the "next" of the page before'],
    ['?since=yesterday', 'since: expected a time such as'],
  ]) {
    const { status, error } = await list(queue, query);
    expect([status, error?.message]).toEqual([400, expect.stringContaining(message as string)]);
  }
});
