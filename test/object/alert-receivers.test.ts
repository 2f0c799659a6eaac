import { globSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterAll, expect, it } from 'vitest';
import type { AlertMute, AlertsView, AuditPage, FleetView, TestPost } from '../../src/protocol/index.ts';
import { startMailServer } from '../support/mail-server.ts';
import { until } from '../support/poll.ts';
import { startReceiver } from '../support/receiver.ts';
import { startTestQueue } from '../support/test-queue.ts';

/** Several receivers of alerts of one real queue: HTTP servers and a mail server. */
const [broken, pager, hook, mail, strict] = await Promise.all([
  startReceiver({ status: 500 }),
  startReceiver({ status: 202 }),
  startReceiver(),
  startMailServer(),
  startMailServer('hush-hush'),
]);
const MAILED = { from: 'queue@example.com', to: ['ops@example.com', 'night@example.com'] };
const road = startTestQueue({
  ALERTS: JSON.stringify([
    { name: 'broken', kind: 'slack', url: `${broken.url}/hush-hush` },
    { name: 'pager', kind: 'pagerduty', routing_key: 'k'.repeat(32), url: pager.url, severity: 'error' },
    { name: 'hook', kind: 'webhook', url: hook.url, pools: ['llama-*'], ends: false },
    { name: 'mail', kind: 'email', server: `smtp://127.0.0.1:${mail.port}`, ...MAILED },
    { name: 'strict', kind: 'email', server: `smtp://me:hush-hush@127.0.0.1:${strict.port}`, ...MAILED },
  ]),
  ALERT_SETTLED_SECONDS: '0.5',
});
afterAll(() => Promise.all([broken, pager, hook, mail, strict].map((server) => server.stop())));

const ask = async <T>(path: string, method = 'GET', body?: object) => {
  const response = await fetch(`${road.url}${path}`, { method, ...(body && { body: JSON.stringify(body) }) });
  return { status: response.status, body: (await response.json()) as T };
};
const alerts = async () => (await ask<AlertsView>('/api/alerts')).body;
const beat = (worker: string, status: string, error_message?: string) =>
  ask('/api/heartbeats', 'POST', {
    instance_id: worker,
    interval_seconds: 3600,
    config_id: 'llama-8b',
    status,
    error_message,
  });
/** Whether the fleet's database has a worker, and that the pager was told of it. */
function isSaved(worker: string): boolean {
  const [path = ''] = globSync(join(road.stateDir, 'data', '*', 'fleet.sqlite'));
  const database = new DatabaseSync(path, { readOnly: true });
  const [told] = database.prepare(`SELECT entry FROM attention WHERE id = ?`).all(`worker_error/${worker}`);
  const [kept] = database.prepare(`SELECT 1 FROM workers WHERE worker_id = ?`).all(worker);
  database.close();
  return kept !== undefined && String(told?.entry).includes('"pager"');
}
const events = (worker: string) =>
  pager.posts
    .filter(({ body }) => String(body.dedup_key).endsWith(`/${worker}`))
    .map(({ body }) => body.event_action);

it('tells each receiver what comes and goes by its own rules, while another one is down', async () => {
  await beat('w', 'fatal', 'no GPU');
  await until(() => events('w').length === 1 && hook.posts[0] && mail.mails[0], 'all others are told');
  expect(pager.posts[0]?.body).toMatchObject({
    routing_key: 'k'.repeat(32),
    event_action: 'trigger',
    payload: { summary: 'w failed: no GPU.', severity: 'error', source: 'w', class: 'worker_error' },
  });
  expect(hook.posts[0]?.body).toMatchObject({
    type: 'alert.firing',
    data: { worker_id: 'w', kind: 'worker_error' },
  });
  expect(mail.mails[0]).toMatchObject(MAILED);
  expect(mail.mails[0]?.content).toContain('Subject: [worker-vllm] Error: w failed: no GPU.');
  const failing = async () => (await alerts()).receivers.filter(({ state }) => state === 'failing');
  await until(async () => (await failing()).length === 2, 'those that do not take it are tried');
  const { receivers } = await alerts();
  expect(receivers.map(({ name, kind, to, state, standing }) => [name, kind, to, state, standing])).toEqual([
    ['broken', 'slack', new URL(broken.url).host, 'failing', 0],
    ['pager', 'pagerduty', new URL(pager.url).host, 'ok', 1],
    ['hook', 'webhook', new URL(hook.url).host, 'ok', 1],
    ['mail', 'email', 'ops@example.com, night@example.com', 'ok', 1],
    // Its server's certificate is one that nobody trusts, and a password is sent to none such.
    ['strict', 'email', 'ops@example.com, night@example.com', 'failing', 0],
  ]);
  expect(receivers[0]?.text).toMatch(/^It did not take the last post: it answered 500; it is tried again /);
  expect(receivers[4]?.text).toMatch(/self[- ]signed certificate|certificate/);
  await beat('w', 'running');
  await until(() => events('w').length === 2 && mail.mails[1], 'the end is told');
  expect(events('w')).toEqual(['trigger', 'resolve']);
  expect(mail.mails[1]?.content).toMatch(/Subject: \[worker-vllm\] Over after/);
  await until(
    async () => (await alerts()).receivers[2]?.standing === 0,
    'the end is known where it is not told',
  );
  expect(hook.posts).toHaveLength(1);
  expect(strict.mails).toEqual([]);
});

it('repeats and forgets nothing in a restart', async () => {
  await beat('kept', 'fatal', 'no disk');
  await until(() => events('kept').length === 1, 'it is told');
  await until(() => isSaved('kept'), 'the worker and what was told of it are on disk');
  await road.killAndRestart();
  await beat('other', 'fatal', 'no disk');
  await until(() => events('other').length === 1, 'another one is told');
  expect(events('kept')).toEqual(['trigger']);
  const [first] = (await alerts()).receivers;
  expect(first).toMatchObject({ name: 'broken', state: 'failing', last_failure_at: expect.any(Number) });
  await beat('kept', 'running');
  await until(() => events('kept').length === 2, 'its end is told');
});

it('posts nothing of what is muted, until the mute is ended', async () => {
  const mute = await ask<AlertMute>('/api/alerts/mutes', 'POST', {
    pool: 'llama-*',
    for: '1h',
    why: 'a move',
  });
  expect(mute).toMatchObject({ status: 201, body: { pool: 'llama-*', kind: null, by: null, why: 'a move' } });
  await beat('muted', 'fatal', 'no fan');
  const view = async () => (await ask<FleetView>('/api/fleet')).body;
  const seen = (await view()).attention.find(({ worker_id }) => worker_id === 'muted');
  expect(seen?.muted_until).toBe(mute.body.until);
  // The receiver is told of a later problem that is not muted, so it would have been told of the muted one.
  await ask('/api/heartbeats', 'POST', {
    instance_id: 'free',
    interval_seconds: 3600,
    config_id: 'qwen',
    status: 'fatal',
    error_message: 'no fan',
  });
  await until(() => events('free').length === 1, 'what is not muted is told');
  expect(events('muted')).toEqual([]);
  expect((await alerts()).mutes).toEqual([mute.body]);
  expect(await ask(`/api/alerts/mutes/${mute.body.id}`, 'DELETE')).toEqual({ status: 200, body: mute.body });
  await until(() => events('muted').length === 1, 'what still stands is told');
  expect(await ask(`/api/alerts/mutes/${mute.body.id}`, 'DELETE')).toMatchObject({
    status: 404,
    body: { error: { code: 'mute_not_found' } },
  });
  for (const wrong of [{}, { for: '40d' }, { for: '1h', kind: 'nothing' }, { for: '1h', pol: 'llama' }])
    expect(await ask('/api/alerts/mutes', 'POST', wrong)).toMatchObject({ status: 400 });
  // A kind of which nobody is ever told cannot be muted either.
  expect(await ask('/api/alerts/mutes', 'POST', { for: '1h', kind: 'unknown_model' })).toMatchObject({
    status: 400,
    body: { error: { message: expect.stringMatching(/kind: expected .*worker_lost.* not "unknown_model"/) } },
  });
  const { entries } = (await ask<AuditPage>('/api/audit?limit=20')).body;
  const muted = entries.filter(({ action }) => action.startsWith('alerts.')).reverse();
  expect(muted.map(({ action, target, outcome }) => [action, target, outcome])).toEqual([
    ['alerts.mute', 'pool llama-*', 'done'],
    ['alerts.unmute', 'pool llama-*', 'done'],
    ['alerts.unmute', mute.body.id, 'refused'],
  ]);
});

it('sends a test and says how the receiver answered', async () => {
  const test = (name: string) => ask<TestPost>(`/api/alerts/receivers/${name}/test`, 'POST');
  expect(await test('pager')).toEqual({
    status: 200,
    body: { taken: true, text: 'pager took the test post: it answered 202.' },
  });
  expect(pager.posts.at(-1)?.body).toMatchObject({ payload: { severity: 'info', class: 'test' } });
  expect(await test('broken')).toMatchObject({
    body: { taken: false, text: 'broken did not take the test post: it answered 500.' },
  });
  expect(await test('mail')).toMatchObject({ body: { taken: true } });
  expect(mail.mails.at(-1)?.content).toContain('This is a test of the alert receiver "mail"');
  expect(await test('nobody')).toMatchObject({
    status: 404,
    body: { error: { code: 'receiver_not_found' } },
  });
  await hook.stop();
  const down = await test('hook');
  expect(down.body.text).toMatch(/^hook did not take the test post: it did not answer: connect ECONNREFUSED/);
  const row = (await alerts()).receivers.find(({ name }) => name === 'hook');
  expect(row?.text).toMatch(/^It did not take the last post: .*; there is nothing new to tell it\.$/);
  expect(JSON.stringify([await alerts(), road.logged])).not.toMatch(/hush-hush|kkkk/);
});
