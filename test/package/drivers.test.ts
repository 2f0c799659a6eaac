import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { stringify } from 'yaml';
import { DRIVER_NAMES } from '../../src/providers/drivers.ts';
import { FakeDockerEngine } from '../support/fakes/docker-engine.ts';
import { FakeProvider } from '../support/fakes/fake-provider.ts';
import { fleetView } from '../support/fleet-road.ts';
import { until } from '../support/poll.ts';
import { freePort } from '../support/ports.ts';
import { stateFolder, tearDown } from '../support/road.ts';
import { VirtualClock } from '../support/virtual-clock.ts';
import { installed } from './installed.ts';

/** Each driver as it is published, with the packages that it brings in. */

const daemon = new FakeDockerEngine(new FakeProvider(new VirtualClock(), { namesAreUnique: true }));
afterAll(async () => {
  await tearDown();
  await daemon.close();
});

it('every driver loads and calls its provider', async () => {
  const folder = stateFolder();
  const socket = join(folder, 'docker.sock');
  await daemon.listen(socket);
  daemon.images.add('worker:v1');
  const [port, nobody] = [await freePort(), await freePort()];
  const url = `http://127.0.0.1:${nobody}`;
  const providers = {
    process: { driver: 'process' },
    docker: { driver: 'docker', host: `unix://${socket}` },
    kubernetes: { driver: 'kubernetes', namespace: 'llm' },
    runpod: { driver: 'runpod', url },
    vast: { driver: 'vast', url },
    dstack: { driver: 'dstack', url },
  };
  expect(Object.keys(providers).sort()).toEqual([...DRIVER_NAMES].sort());
  const machines = [{ provider: 'docker', gpus: 0 }];
  const pool = { engine: 'simulator', model: 'tiny', image: 'worker:v1', min: 1, machines };
  writeFileSync(join(folder, 'fleet.yaml'), stringify({ providers, pools: { cfg: pool } }));
  writeFileSync(join(folder, 'kubeconfig'), kubeconfig(`https://127.0.0.1:${nobody}`));

  const args = ['--fleet', join(folder, 'fleet.yaml'), '--port', String(port), '--state', folder];
  const keys = { RUNPOD_API_KEY: 'a', VAST_API_KEY: 'a', DSTACK_TOKEN: 'a' };
  const up = installed(['up', ...args], { KUBECONFIG: join(folder, 'kubeconfig'), ...keys });
  await up.waitForLine(/Dashboard: /);
  const ended = up.exited.then(() => Promise.reject(new Error(up.output())));
  const told = await Promise.race([ended, allHaveTold(`http://127.0.0.1:${port}`)]);
  const errors = Object.fromEntries(told.map(({ driver, error }) => [driver, error]));
  const refused = expect.stringContaining('ECONNREFUSED');
  expect(errors).toEqual({
    process: null,
    docker: null,
    kubernetes: refused,
    runpod: refused,
    vast: refused,
    dstack: refused,
  });
  await until(() => daemon.provider.machines.length === 1, 'Docker has made the container');
});

/** What is known of each provider, once all were asked for their machines. */
async function allHaveTold(url: string) {
  return await until(async () => {
    const all = (await fleetView(url)).scaling?.providers ?? [];
    const asked = all.filter(({ listed_at, error }) => listed_at !== null || error !== null);
    return asked.length === DRIVER_NAMES.length ? asked : null;
  }, 'every driver has told of its provider');
}

function kubeconfig(server: string): string {
  return stringify({
    'current-context': 'here',
    contexts: [{ name: 'here', context: { cluster: 'here', user: 'me' } }],
    clusters: [{ name: 'here', cluster: { server } }],
    users: [{ name: 'me', user: { token: 'a' } }],
  });
}
