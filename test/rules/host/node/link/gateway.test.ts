import { afterEach, expect, it } from 'vitest';
import { startGateway } from '../../../../../src/host/node/gateway.ts';
import { until } from '../../../../support/poll.ts';
import { closeOpened, type Owner, open, startOwner } from './owner.ts';

afterEach(closeOpened);

async function gatewayOf({ server }: Owner, host = '127.0.0.1') {
  const gateway = await startGateway({
    ...{ host, port: 0, queueUrls: [server.url], token: null, advertise: null },
  });
  open.push({ close: () => gateway.stop() });
  return gateway;
}

it('takes no setting any more that its queue lacks after a restart', async () => {
  const page = 'https://page.example';
  const first = await startOwner({}, 0, undefined, { CORS_ORIGINS: page });
  const gateway = await gatewayOf(first);
  await gateway.linked;
  const allowed = async () => {
    const headers = { origin: page, 'access-control-request-method': 'GET' };
    const answer = await fetch(`${gateway.url}/v1/models`, { method: 'OPTIONS', headers });
    return answer.headers.get('access-control-allow-origin');
  };
  expect(await allowed()).toBe(page);
  await first.close();
  open.push(await startOwner({}, first.server.port));
  await until(async () => (await allowed()) === null, 'the page is not let in any more');
});

it('answers a health check at once that is on its way when the queue goes away', async () => {
  let asked = 0;
  const silent = async () => {
    asked += 1;
    return await new Promise(() => {});
  };
  const owner = await startOwner({
    queue: () => ({ status: silent }) as never,
    fleet: () => ({ view: silent }) as never,
  });
  const gateway = await gatewayOf(owner);
  await gateway.linked;
  const health = fetch(`${gateway.url}/health`);
  await until(() => asked === 2, 'the queue is asked');
  await owner.close();
  expect(await (await health).json()).toEqual({ status: 'ok', queue_away_since: expect.any(String) });
});

it('serves a queue without tokens at this machine alone', async () => {
  const owner = await startOwner({});
  open.push(owner);
  const gateway = await gatewayOf(owner, '0.0.0.0');
  await expect(gateway.linked).rejects.toThrow(/has no tokens.*not on 0\.0\.0\.0: anybody could use it/);
  expect((await fetch(`${gateway.url}/health`)).status).toBe(503);
});
