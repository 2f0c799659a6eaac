import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { ensureAlertmanager } from '../../scripts/alertmanager/setup.ts';
import type { AlertsView, TestPost } from '../../src/protocol/index.ts';
import { until } from '../support/poll.ts';
import { freePort } from '../support/ports.ts';
import { startProcess } from '../support/processes.ts';
import { startReceiver } from '../support/receiver.ts';
import { startTestQueue } from '../support/test-queue.ts';

/** Alerts of a real queue at a real Alertmanager, which posts them on. */
const [port, receiver, folder] = await Promise.all([
  freePort(),
  startReceiver(),
  mkdtemp(join(tmpdir(), 'alertmanager-')),
]);
const url = `http://127.0.0.1:${port}`;
const road = startTestQueue({
  ALERTS: JSON.stringify([{ name: 'cluster', kind: 'alertmanager', url }]),
  ALERT_SETTLED_SECONDS: '0.5',
});
let manager: ReturnType<typeof startProcess>;

beforeAll(async () => {
  const configuration = {
    route: { receiver: 'posts', group_by: ['...'], group_wait: '0s', group_interval: '1s' },
    receivers: [{ name: 'posts', webhook_configs: [{ url: receiver.url, send_resolved: true }] }],
  };
  // YAML is a superset of JSON.
  await writeFile(join(folder, 'alertmanager.yml'), JSON.stringify(configuration));
  const [command, ...args] = await ensureAlertmanager();
  manager = startProcess(command, [
    ...args,
    `--config.file=${join(folder, 'alertmanager.yml')}`,
    `--storage.path=${folder}`,
    `--web.listen-address=127.0.0.1:${port}`,
    '--cluster.listen-address=',
  ]);
  await until(
    () =>
      fetch(`${url}/-/ready`).then(
        ({ ok }) => ok,
        () => false,
      ),
    'Alertmanager is ready',
  );
});
afterAll(async () => {
  await manager.stop();
  await receiver.stop();
  await rm(folder, { recursive: true, force: true });
});

const beat = (status: string) =>
  fetch(`${road.url}/api/heartbeats`, {
    method: 'POST',
    body: JSON.stringify({
      instance_id: 'vast-17',
      config_id: 'llama-8b',
      interval_seconds: 3600,
      status,
      ...(status !== 'running' && { error_message: 'no GPU' }),
    }),
  });
const active = async () =>
  (await (await fetch(`${url}/api/v2/alerts?active=true`)).json()) as {
    labels: Record<string, string>;
    annotations: Record<string, string>;
    startsAt: string;
    endsAt: string;
  }[];
const receivers = async () =>
  ((await (await fetch(`${road.url}/api/alerts`)).json()) as AlertsView).receivers;
const posted = (status: string) =>
  receiver.posts.find(
    ({ body }) => body.status === status && JSON.stringify(body).includes('worker_vllm_worker_error'),
  );

it('has an alert while a problem stands, and posts on that it is over', async () => {
  await beat('fatal');
  const alert = await until(async () => (await active())[0], 'the alert is there');
  expect(alert).toMatchObject({
    labels: {
      alertname: 'worker_vllm_worker_error',
      severity: 'error',
      queue_id: 'vllm-queue',
      config_id: 'llama-8b',
      worker_id: 'vast-17',
      problem: 'worker_error/vast-17',
    },
    annotations: { summary: 'vast-17 failed: no GPU.', description: 'Read the last lines of its log.' },
  });
  expect(Date.parse(alert.endsAt)).toBeGreaterThan(Date.now() + 60_000);
  await until(() => posted('firing'), 'it is posted on');
  await beat('running');
  await until(async () => (await active()).length === 0, 'the alert is over');
  await until(() => posted('resolved'), 'its end is posted on');
  // The queue reads the answer to its post after Alertmanager has acted on it.
  await until(async () => (await receivers())[0]?.standing === 0, 'the receiver has been told of the end');
  expect(await receivers()).toMatchObject([{ name: 'cluster', state: 'ok', to: `127.0.0.1:${port}` }]);
});

it('takes a test', async () => {
  const response = await fetch(`${road.url}/api/alerts/receivers/cluster/test`, { method: 'POST' });
  expect((await response.json()) as TestPost).toMatchObject({ taken: true });
  const alerts = await active();
  expect(alerts.map(({ labels }) => labels.alertname)).toEqual(['worker_vllm_test']);
});
