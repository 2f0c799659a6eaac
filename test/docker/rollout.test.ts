import { join } from 'node:path';
import { afterAll, afterEach, expect, it } from 'vitest';
import { freePort } from '../../src/process/free-port.ts';
import { writeFleet } from '../support/fleet-road.ts';
import { stopAllProcesses } from '../support/processes.ts';
import { cli, stateFolder, tearDown } from '../support/road.ts';
import { expectRolled, makeImages, ROLLING_POOL, removeImages } from '../support/rollout-road.ts';
import { docker } from './containers.ts';
import { DaemonProxy } from './daemon-proxy.ts';
import { IMAGES } from './images.ts';
import { TOKEN } from './road.ts';

/** A pool of containers of a real daemon goes from image to image. */

const proxy = new DaemonProxy();
const images = makeImages(IMAGES.worker);

afterEach(async () => {
  await stopAllProcesses();
  const left = await docker('ps', '--all', '--filter', 'name=^/wv-[a-z0-9]+-roll-', '--format', '{{.Names}}');
  if (left !== '') await docker('rm', '--force', ...left.split('\n'));
});
afterAll(async () => {
  removeImages(images);
  proxy.close();
  await tearDown();
});

it('goes to another image, and from a broken one back, and no stream fails or is counted twice', {
  timeout: 600_000,
}, async () => {
  await proxy.listen();
  const path = join(stateFolder(), 'fleet.yaml');
  const write = (image: string) => {
    const roll = { ...ROLLING_POOL, image, machines: [{ provider: 'box' }] };
    writeFleet(path, { providers: { box: { driver: 'docker', host: proxy.host } }, pools: { roll } });
  };
  write(images.first);
  const host = await docker('network', 'inspect', 'bridge', '--format', '{{(index .IPAM.Config 0).Gateway}}');
  const port = String(await freePort());
  const args = ['up', '--fleet', path, '--host', host, '--port', port, '--state', stateFolder()];
  const up = cli(args, { QUEUE_TOKENS: `admin:${TOKEN}` });
  await up.waitForLine(/Workers start when requests come/);
  const why = /exit code 2: VLLM_STARTUP_TIMEOUT="soon"/;
  await expectRolled({ url: `http://${host}:${port}`, token: TOKEN, configId: 'roll', images, write, why });
  up.kill('SIGTERM');
  expect((await up.exited).code, up.output()).toBe(0);
});
