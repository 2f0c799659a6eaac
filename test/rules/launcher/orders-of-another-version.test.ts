import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { startLauncher } from '../../../src/launcher/run.ts';
import type { Logger } from '../../../src/process/log.ts';
import { until } from '../../support/poll.ts';
import { bodyOf } from '../../support/request-body.ts';

const ORDER = {
  kind: 'launch',
  launch_id: 'a',
  order: 1,
  provider: 'here',
  name: 'wv-abc-chat-a',
  may_exist: false,
  machine: { instance_type: 'local', gpus: 1, disk_gb: null, price_per_hour: null },
  config_id: 'chat',
  // Without a model, so that nothing comes up where it is carried out.
  pool: { engine: 'simulator', model: '', env: {}, secrets: ['NO_SUCH_SECRET'], slots: 1 },
  token: 'wvl_t',
};
const ANSWER = {
  prefix: 'wv-abc-',
  providers: [{ name: 'here', spec: { driver: 'process', of_tomorrow: true }, instance_types: ['local'] }],
  orders: [ORDER],
  sync_after_ms: 20,
  list_every_ms: 1000,
};

const ends: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0)) await end();
});

/** A launcher whose queue answers so. */
async function launcherAt(answer: object) {
  const lines: string[] = [];
  const reports: { results: unknown[] }[] = [];
  const queue = createServer(async (request, response) => {
    const sent = await bodyOf(request);
    if (sent === null) return;
    reports.push(JSON.parse(sent));
    response.end(JSON.stringify(answer));
  });
  await new Promise<void>((listening) => queue.listen(0, '127.0.0.1', listening));
  const keep = (fields: object, message: string) => void lines.push(`${message} ${JSON.stringify(fields)}`);
  const log = { debug: keep, info: keep, warn: keep, error: keep } as unknown as Logger;
  const url = `http://127.0.0.1:${(queue.address() as AddressInfo).port}`;
  const launcher = startLauncher({ url, stateDir: '/nonexistent' }, {}, log);
  ends.push(async () => {
    launcher.stop();
    await launcher.ended;
    queue.closeAllConnections();
    queue.close();
  });
  return { lines, results: () => reports.flatMap(({ results }) => results) };
}

describe('orders of a queue of another version', () => {
  it('are not carried out where the launcher does not know their form', async () => {
    const { price_per_hour: _, ...machine } = ORDER.machine;
    const { lines, results } = await launcherAt({ ...ANSWER, orders: [{ ...ORDER, machine }] });
    await until(
      () => lines.some((line) => line.includes('orders.0.machine.price_per_hour')),
      'it says what it does not know',
    );
    expect(lines.join()).toContain('run queue and launcher in the same version');
    expect(results()).toEqual([]);
  });

  it('are carried out without the fields that it does not know', async () => {
    const { results } = await launcherAt({
      ...ANSWER,
      of_tomorrow: 1,
      orders: [{ ...ORDER, of_tomorrow: 1 }],
    });
    await until(() => results().length > 0, 'the order is answered');
    expect(results()[0]).toMatchObject({
      launch_id: 'a',
      outcome: { kind: 'rejected', detail: expect.stringContaining('NO_SUCH_SECRET') },
    });
  });
});
