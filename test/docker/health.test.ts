import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { stringify } from 'yaml';
import { until } from '../support/poll.ts';
import { docker, health, newName, newNetwork, removeAll, start, stateOf } from './containers.ts';
import { IMAGES } from './images.ts';
import { startQueue, startWorker, TOKEN } from './road.ts';

const folder = mkdtempSync(join(tmpdir(), 'wv-health-'));
const fleet = join(folder, 'fleet.yaml');
writeFileSync(
  fleet,
  stringify({
    providers: { here: { driver: 'process' } },
    pools: { cfg: { engine: 'simulator', model: 'tiny', slots: 1, machines: [{ provider: 'here' }] } },
  }),
);

afterEach(removeAll);
afterAll(() => rmSync(folder, { recursive: true }));

describe('the health check of the images', () => {
  it.each([{ more: [] }, { more: ['--init'] }])(
    'asks the queue where a queue runs $more',
    async ({ more }) => {
      const queue = await startQueue(await newNetwork(), ...more);
      await untilHealthy(queue.name);
      // It answers nobody while it stands still.
      const found = await docker('exec', queue.name, 'pgrep', '-f', 'worker-vllm.js queue');
      await docker('exec', queue.name, 'kill', '-STOP', ...found.trim().split('\n'));
      // From inside, process 1 takes no such signal.
      await docker('kill', '--signal', 'STOP', queue.name);
      expect(await health(queue.name)).toMatchObject({ code: 1 });
    },
  );

  it('asks the gateway where a gateway runs, which is healthy while it has its queue', async () => {
    const network = await newNetwork();
    const queue = await startQueue(network, '--env', `QUEUE_TOKENS=gateway:${TOKEN}`);
    const name = await start(
      newName('gateway'),
      ...['--network', network, '--env', `GATEWAY_TOKEN=${TOKEN}`, '--env', 'GATEWAY_HOST=0.0.0.0'],
      ...[IMAGES.queue, 'gateway', '--queue', `http://${queue.name}:8788`],
    );
    await untilHealthy(name);
    await docker('stop', queue.name);
    // It waits for its queue for 30 s.
    await until(async () => (await health(name)).code === 1, 'it is not', { everyMs: 1000 });
    expect(await stateOf(name)).toMatchObject({ Status: 'running' });
  });

  it.each([['launcher', '/fleet.yaml'], ['launcher']])(
    'asks for the queue where `%s` runs',
    async (...command) => {
      const network = await newNetwork();
      const queue = await startQueue(network);
      const name = await start(
        newName(command[0]!),
        ...[
          '--network',
          network,
          '--env',
          `CASOLA_API_TOKEN=${TOKEN}`,
          '--volume',
          `${fleet}:/fleet.yaml:ro`,
        ],
        ...[IMAGES.queue, ...command, '--url', `http://${queue.name}:8788`],
      );
      await untilHealthy(name);
      await docker('stop', queue.name);
      expect(await health(name)).toMatchObject({ code: 1, stdout: expect.stringContaining(queue.name) });
      expect(await stateOf(name)).toMatchObject({ Status: 'running' });
    },
  );

  it("is right for a launcher in the worker's image, given by its variables", async () => {
    const network = await newNetwork();
    const queue = await startQueue(network);
    const name = await start(
      newName('launcher'),
      ...[
        '--network',
        network,
        '--env',
        `CASOLA_API_TOKEN=${TOKEN}`,
        '--env',
        `QUEUE_URL=http://${queue.name}:8788`,
      ],
      ...['--entrypoint', 'worker-vllm', IMAGES.worker, 'launcher'],
    );
    await untilHealthy(name);
  });

  it('asks the engine where a worker runs', async () => {
    const network = await newNetwork();
    const queue = await startQueue(network);
    const loading = await startWorker(network, queue, { VLLM_EXTRA_ARGS: '--startup-seconds 3600' });
    await untilHealthy(await startWorker(network, queue));
    expect(await health(loading)).toMatchObject({ code: 1 });
  });
});

/** Waits until the health check passes: it does not where the program stands still for its few seconds. */
async function untilHealthy(name: string): Promise<void> {
  const isHealthy = async () => {
    const { code, stdout } = await health(name);
    return code === 0 && stdout.includes('healthy');
  };
  await until(isHealthy, `${name} is healthy`, { everyMs: 300 });
}
