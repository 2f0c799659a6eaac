import { join } from 'node:path';
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest';
import { freePort } from '../../src/process/free-port.ts';
import type { FleetView, JobView } from '../../src/protocol/index.ts';
import { isAlive, writeFleet } from '../support/fleet-road.ts';
import { until } from '../support/poll.ts';
import { type Child, stopAllProcesses } from '../support/processes.ts';
import { chatJob, cli, stateFolder, tearDown } from '../support/road.ts';
import { docker, tried } from './containers.ts';
import { DaemonProxy } from './daemon-proxy.ts';
import { IMAGES } from './images.ts';
import { call, jobOf, TOKEN, untilJob } from './road.ts';

/** Fleets whose workers are containers of a real daemon, over the commands that operators type. */

const LIMIT = { timeoutMs: 150_000, everyMs: 200 };
const TOKENS = { QUEUE_TOKENS: `admin:${TOKEN}` };
/** Not there when it is asked for. */
const ABSENT = `wvt-${process.pid}-absent:latest`;
let proxy: DaemonProxy;
let path: string;

beforeEach(async () => {
  proxy = await new DaemonProxy().listen();
  path = join(stateFolder(), 'fleet.yaml');
});
afterEach(async () => {
  await stopAllProcesses();
  const left = await containers();
  if (left.length > 0) await docker('rm', '--force', ...left);
  await tried('image', 'rm', ABSENT);
  proxy.close();
});
afterAll(tearDown);

/** Names of all workers of the pool `fleet` that the daemon has, in any state. */
async function containers(...filters: string[]): Promise<string[]> {
  const args = ['name=^/wv-[a-z0-9]+-fleet-', ...filters].flatMap((filter) => ['--filter', filter]);
  return (await docker('ps', '--all', ...args, '--format', '{{.Names}}')).split('\n').filter(Boolean);
}

function write(pool: Record<string, unknown> = {}): void {
  const providers = { box: { driver: 'docker', host: proxy.host } };
  const machines = [{ provider: 'box' }];
  writeFleet(path, { providers, pools: { fleet: { image: IMAGES.worker, machines, ...pool } } });
}

async function allGone(queue: { url: string }): Promise<void> {
  const launches = async () => (await call<FleetView>(queue, '/api/fleet')).launches;
  await until(async () => !(await launches()).some(isAlive), 'all launches are over', LIMIT);
  expect(await containers()).toEqual([]);
}

/** Containers reach this machine there, and so does it itself. */
function bridgeAddress(): Promise<string> {
  return docker('network', 'inspect', 'bridge', '--format', '{{(index .IPAM.Config 0).Gateway}}');
}

describe('`up --fleet` with the driver of Docker', () => {
  it('goes from no container to three and back to none', async () => {
    write({ slots: 1, max: 3 });
    const host = await bridgeAddress();
    const url = `http://${host}:${await freePort()}`;
    const up = cli(
      ['up', '--fleet', path, '--host', host, '--port', new URL(url).port, '--state', stateFolder()],
      TOKENS,
    );
    await up.waitForLine(/Workers start when requests come/);
    expect(await containers()).toEqual([]);
    const headers = { authorization: `Bearer ${TOKEN}` };
    const post = () =>
      fetch(`${url}/v1/chat/completions`, {
        method: 'POST',
        headers,
        body: JSON.stringify({ model: 'tiny', messages: [{ role: 'user', content: 'Hi' }], max_tokens: 400 }),
      });
    // Each asks again until there are three containers: the first must not answer all before the third is up.
    let isEnough = false;
    const caller = async () => {
      const statuses: number[] = [];
      do statuses.push((await post()).status);
      while (!isEnough);
      return statuses;
    };
    const answers = Promise.all(Array.from({ length: 6 }, caller));
    try {
      await until(
        async () => (await containers('status=running')).length === 3,
        'three containers run',
        LIMIT,
      );
    } finally {
      isEnough = true;
    }
    expect(new Set((await answers).flat())).toEqual(new Set([200]));
    await allGone({ url });
    const { launches } = await call<FleetView>({ url }, '/api/fleet');
    expect(
      launches.map(({ state }) => state),
      up.output(),
    ).toEqual(launches.map(() => 'gone'));
    expect(launches.length, up.output()).toBeLessThanOrEqual(4);
    up.kill('SIGTERM');
    expect((await up.exited).code, up.output()).toBe(0);
  });

  it('leaves no container when it ends', async () => {
    write({ min: 1, max: 1 });
    const host = await bridgeAddress();
    const up = cli(['up', '--fleet', path, '--host', host, '--port', '0', '--state', stateFolder()], TOKENS);
    await until(async () => (await containers('status=running')).length === 1, 'a container runs', LIMIT);
    up.kill('SIGTERM');
    expect((await up.exited).code, up.output()).toBe(0);
    expect(await containers()).toEqual([]);
  });
});

describe('a launcher that is killed', () => {
  let queue: { url: string };
  let stateDir: string;
  beforeEach(async () => {
    stateDir = stateFolder();
    const port = String(await freePort());
    const process = cli(['queue', '--host', '0.0.0.0', '--port', port, '--state', stateFolder()], TOKENS);
    await process.waitForLine(/listening at/);
    queue = { url: `http://127.0.0.1:${port}` };
  });

  async function launcher(): Promise<Child> {
    const workerUrl = queue.url.replace('127.0.0.1', 'host.docker.internal');
    const args = ['--url', queue.url, '--worker-url', workerUrl, '--state', stateDir, '--id', 'box'];
    const process = cli(['launcher', path, ...args], { CASOLA_API_TOKEN: TOKEN });
    await process.waitForLine(/It costs|in force/);
    return process;
  }

  async function killedAt(call: RegExp): Promise<Child> {
    proxy.holds = call;
    const first = await launcher();
    return await killed(first);
  }

  /** Once a call to the daemon is halfway; another one goes on. */
  async function killed(first: Child): Promise<Child> {
    await until(() => proxy.held.length > 0, 'a call is halfway', LIMIT);
    first.kill('SIGKILL');
    await first.exited;
    proxy.holds = null;
    return await launcher();
  }

  const submitted = () => call<JobView>(queue, '/api/jobs', chatJob(20, { config_id: 'fleet' }));
  const launches = async () => (await call<FleetView>(queue, '/api/fleet')).launches;
  async function succeeded(id: string): Promise<void> {
    await untilJob(queue, id, 'succeeded', LIMIT);
    expect(await jobOf(queue, id)).toMatchObject({ attempts: 1 });
  }

  it('between create and start goes on with that container', async () => {
    write({ max: 1 });
    const { id } = await submitted();
    await killedAt(/^POST \/containers\/[^/]+\/start/);
    await succeeded(id);
    await allGone(queue);
    expect(await launches()).toMatchObject([{ state: 'gone' }]);
  });

  it('in the pull has its image pulled again, and one container', async () => {
    write({ max: 1, image: ABSENT });
    const { id } = await submitted();
    await killedAt(/^POST \/images\/create/);
    // The daemon could get it meanwhile.
    await docker('tag', IMAGES.worker, ABSENT);
    await succeeded(id);
    await allGone(queue);
  });

  it('while removing has it removed', async () => {
    write({ max: 1 });
    const { id } = await submitted();
    const first = await launcher();
    await succeeded(id);
    proxy.holds = /^DELETE \/containers\//;
    await killed(first);
    await allGone(queue);
    expect(await launches()).toMatchObject([{ state: 'gone' }]);
  });
});
