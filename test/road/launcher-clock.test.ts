import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, it } from 'vitest';
import { buildClockShim, type ClockShim, noClockShim } from '../support/clock-shim.ts';
import { until } from '../support/poll.ts';
import { cli, stateFolder, tearDown } from '../support/road.ts';

/** The wall clock of a real launcher is set back; the test plays its queue and its provider. */
const WHY = noClockShim === null ? '' : ` (skipped: ${noClockShim})`;
let clock: ClockShim;
let server: Server;
let lists = 0;

/** Of RunPod's list of pods, which is empty, and of a queue that has it listed every second. */
function answer({ url }: IncomingMessage): object {
  if (url?.startsWith('/v2/pods')) {
    lists += 1;
    return { pods: [] };
  }
  const spec = { driver: 'runpod', api_key_variable: 'RUNPOD_API_KEY', cloud: 'SECURE', url: `${at()}/v2` };
  const providers = [{ name: 'cloud', spec, instance_types: [] }];
  return { prefix: 'wv-abc-', providers, orders: [], sync_after_ms: 200, list_every_ms: 1000 };
}

function at(): string {
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

describe.skipIf(noClockShim !== null)(`the clock of a launcher${WHY}`, () => {
  beforeEach(async () => {
    clock = buildClockShim();
    server = createServer((request, response) => {
      request.resume();
      response.setHeader('content-type', 'application/json').end(JSON.stringify(answer(request)));
    });
    await once(server.listen(0, '127.0.0.1'), 'listening');
    cli(['launcher', '--url', at(), '--state', stateFolder()], {
      ...clock.env,
      RUNPOD_API_KEY: 'key',
    });
  });
  afterEach(async () => {
    await tearDown();
    server.closeAllConnections();
    server.close();
    clock.remove();
  });

  it('may be set back by an hour: providers are listed all the same', async () => {
    await until(() => lists >= 2, 'the provider is listed');
    clock.setOffset(-3_600_000);
    const before = lists;
    await until(() => lists >= before + 4, 'the provider is listed on');
  });
});
