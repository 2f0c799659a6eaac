import { afterAll, expect, it } from 'vitest';
import type { AuditPage, FleetView } from '../../src/protocol/index.ts';
import { until } from '../support/poll.ts';
import { startReceiver } from '../support/receiver.ts';
import { startTestQueue, type TestQueue } from '../support/test-queue.ts';

/** What needs attention posted by a real queue to a real HTTP server, and acknowledged over HTTP. */
const receiver = await startReceiver({ status: 500 });
const SECRET_PATH = '/services/T000/B000/very-secret';
const road = startTestQueue({
  ALERT_URL: `${receiver.url}${SECRET_PATH}`,
  ALERT_SETTLED_SECONDS: '1',
});
afterAll(() => receiver.stop());

const beat = (queue: TestQueue, worker: string, more: object) =>
  fetch(`${road.url}/api/heartbeats`, {
    method: 'POST',
    headers: { 'x-queue-id': queue.id },
    body: JSON.stringify({ instance_id: worker, interval_seconds: 3600, ...more }),
  });
const ask = async <T>(queue: TestQueue, path: string, init: RequestInit = {}) => {
  const response = await fetch(`${road.url}${path}`, { ...init, headers: { 'x-queue-id': queue.id } });
  return { status: response.status, body: (await response.json()) as T };
};
const texts = (queue: TestQueue) =>
  receiver.posts
    .filter(({ status, body }) => status === 200 && String(body.text).includes(queue.id))
    .map(({ body }) => String(body.text));

it('posts what comes and what goes, until it is taken, and nothing of what was acknowledged', async () => {
  const queue = road.queue();
  await beat(queue, 'broken', { status: 'fatal', error_message: 'no GPU' });
  await beat(queue, 'seen', { status: 'fatal', error_message: 'no disk' });
  const view = async () => (await ask<FleetView>(queue, '/api/fleet')).body;
  const seen = (await view()).attention.find(({ worker_id }) => worker_id === 'seen');
  const acknowledge = (id: string | undefined) =>
    ask<{ acknowledged: unknown; error: unknown }>(queue, '/api/fleet/attention/acknowledge', {
      method: 'POST',
      body: JSON.stringify({ id }),
    });
  expect(await acknowledge(seen?.id)).toMatchObject({
    status: 200,
    body: { worker_id: 'seen', acknowledged: { by: null } },
  });
  expect(await acknowledge('worker_error/nobody')).toMatchObject({
    status: 404,
    body: { error: { code: 'problem_not_found' } },
  });
  expect(await acknowledge(undefined)).toMatchObject({ status: 400 });
  expect((await view()).attention).toMatchObject([
    { worker_id: 'broken', acknowledged: null },
    { worker_id: 'seen', acknowledged: { by: null } },
  ]);
  const audit = await ask<AuditPage>(queue, '/api/audit?action=attention.acknowledge');
  expect(audit.body.entries).toMatchObject([
    { target: 'worker_error/nobody', outcome: 'refused' },
    { target: 'worker_error/seen', outcome: 'done', queue_id: queue.id },
  ]);

  // Refused at first, so tried again.
  await until(() => receiver.posts.some(({ path }) => path === SECRET_PATH), 'a first post');
  await until(
    () => road.logged.some((line) => line.includes('QUEUE_ALERT_URL does not take alerts: it answered 500')),
    'the refusal is logged',
  );
  receiver.status = 200;
  await until(() => texts(queue).length === 1, 'it is taken');
  expect(texts(queue)[0]).toBe(
    `${queue.id}: *Error*: broken failed: no GPU. Read the last lines of its log.`,
  );
  await beat(queue, 'broken', { status: 'running' });
  await beat(queue, 'seen', { status: 'running' });
  await until(() => texts(queue).length === 2, 'the end is told');
  expect(texts(queue)[1]).toMatch(/: \*Over\* after .*: broken failed: no GPU\.$/);
  expect(road.logged.join('\n')).not.toContain('very-secret');
});
