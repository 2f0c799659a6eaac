import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { UserError } from '../../../src/process/exit-codes.ts';
import { DockerDriver } from '../../../src/providers/docker/driver.ts';
import type { DriverPorts, LaunchRequest } from '../../../src/providers/driver.ts';
import { driverContract } from '../../support/driver-contract.ts';
import { FakeDockerEngine } from '../../support/fakes/docker-engine.ts';
import { FakeProvider } from '../../support/fakes/fake-provider.ts';
import { until } from '../../support/poll.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const IMAGE = 'worker:v1';
const NAME = 'wv-abc123-small-1';

/** A daemon that exists only here, at a socket of its own. */
async function startDaemon() {
  const folder = mkdtempSync(join(tmpdir(), 'docker-'));
  const clock = new VirtualClock();
  const provider = new FakeProvider(clock, { namesAreUnique: true });
  const engine = new FakeDockerEngine(provider);
  engine.images.add(IMAGE);
  const host = `unix://${folder}/docker.sock`;
  await engine.listen(join(folder, 'docker.sock'));
  const close = async () => {
    await engine.close();
    rmSync(folder, { recursive: true, force: true });
  };
  /** @param speed how much faster than ours its clock runs */
  const driver = ({
    speed = 1,
    gpus = undefined as number[] | undefined,
    network = undefined as string | undefined,
  } = {}) =>
    new DockerDriver(
      {
        driver: 'docker',
        host,
        volumes: ['/models:/models:ro'],
        ...(gpus ? { gpus } : {}),
        ...(network ? { network } : {}),
      },
      portsOf(speed),
    );
  return { clock, provider, engine, driver, close };
}

function portsOf(speed: number): DriverPorts {
  const log = () => {};
  return {
    env: {},
    clock: {
      now: () => Date.now() * speed,
      setTimeout: (run, ms) => setTimeout(run, ms / speed),
      clearTimeout: (timer) => clearTimeout(timer as NodeJS.Timeout),
    },
    fetch,
    random: Math.random,
    stateDir: '/nonexistent',
    log: { debug: log, info: log, warn: log, error: log },
  };
}

const LOCAL = 'one daemon has no stock, no balance, no rate limit and no list of yesterday';

driverContract(
  'docker',
  async () => {
    const { driver, provider, clock, close } = await startDaemon();
    return { driver: driver(), provider, clock, close };
  },
  {
    image: IMAGE,
    impossible: {
      no_capacity: LOCAL,
      no_money: LOCAL,
      throttled: LOCAL,
      min_interval_ms: LOCAL,
      list_lag_ms: LOCAL,
      start_takes_ms: 'a start is over when its answer comes; the pull before it has tests of its own',
      stuck_loading: 'the same',
      end_takes_ms: 'a stop is answered when the container has ended',
      restarts_for_ever: 'containers are created without a restart policy',
    },
  },
);

/** Where a daemon can be had, test/docker runs the rest over a real one. */
describe('the driver of Docker', () => {
  let daemon: Awaited<ReturnType<typeof startDaemon>>;
  beforeEach(async () => {
    daemon = await startDaemon();
  });
  afterEach(() => daemon.close());

  const request = (more: Partial<LaunchRequest> = {}): LaunchRequest => ({
    name: NAME,
    may_exist: false,
    instance_type: 'local',
    gpus: 0,
    disk_gb: null,
    price_per_hour: null,
    image: IMAGE,
    env: { CASOLA_INSTANCE_ID: NAME, CASOLA_SHUTDOWN_GRACE_PERIOD: '30' },
    ...more,
  });
  const key = { name: NAME, external_id: NAME };

  it('creates a container that fights neither the scheduler nor its shutdown', async () => {
    await daemon.driver({ gpus: [0, 1, 2], network: 'models' }).launch(request({ gpus: 2 }));
    expect(daemon.engine.bodyOf(daemon.provider.alive[0]!)).toMatchObject({
      Image: IMAGE,
      StopTimeout: 35,
      HostConfig: {
        DeviceRequests: [{ Driver: 'nvidia', DeviceIDs: ['0', '1'], Capabilities: [['gpu']] }],
        RestartPolicy: { Name: 'no' },
        AutoRemove: false,
        IpcMode: 'host',
        Init: true,
        NetworkMode: 'models',
        Binds: ['/models:/models:ro'],
      },
    });
  });

  it('gives each container GPUs of its own, launched side by side or by another launcher', async () => {
    const driver = daemon.driver({ gpus: [0, 1, 2] });
    const names = ['wv-abc123-a-1', 'wv-abc123-a-2', 'wv-abc123-a-3', 'wv-abc123-a-4'];
    const outcomes = await Promise.all(names.map((name) => driver.launch(request({ name, gpus: 1 }))));
    expect(outcomes.map(({ kind }) => kind)).toEqual(['launched', 'launched', 'launched', 'no_capacity']);
    const other = daemon.driver({ gpus: [0, 1, 2] });
    expect(await other.launch(request({ gpus: 1 }))).toMatchObject({ kind: 'no_capacity' });
    // What exists is found, although no GPU is free for another.
    expect(await other.launch(request({ name: names[0]!, gpus: 1, may_exist: true }))).toMatchObject({
      kind: 'launched',
    });
    await other.terminate({ name: names[1]!, external_id: null });
    await other.launch(request({ gpus: 1 }));
    const given = daemon.provider.alive.map(
      (machine) => daemon.engine.bodyOf(machine).HostConfig?.DeviceRequests?.[0]?.DeviceIDs,
    );
    expect(given.flat().sort()).toEqual(['0', '1', '2']);
  });

  it('believes an error within an answer of 200', async () => {
    daemon.engine.pullError = 'manifest for nothing:v1 not found: manifest unknown';
    expect(await daemon.driver().launch(request({ image: 'nothing:v1' }))).toMatchObject({
      kind: 'rejected',
      detail: expect.stringContaining('manifest unknown'),
    });
    expect(await daemon.driver().list('wv-')).toEqual([]);
  });

  it('lists a launch whose image takes long, with its GPUs, and creates it once', async () => {
    const pulled = Promise.withResolvers<void>();
    daemon.engine.pullTakes = pulled.promise;
    const driver = daemon.driver({ speed: 100, gpus: [0] });
    expect(await driver.launch(request({ image: 'large:v1', gpus: 1 }))).toMatchObject({ kind: 'launched' });
    expect(await driver.list('wv-')).toMatchObject([
      { name: NAME, state: 'starting', detail: expect.stringContaining('4.2GB/10GB') },
    ]);
    expect(await driver.launch(request({ name: 'wv-abc123-b', gpus: 1 }))).toMatchObject({
      kind: 'no_capacity',
    });
    expect(await driver.launch(request({ image: 'large:v1', may_exist: true }))).toMatchObject({
      kind: 'launched',
    });
    pulled.resolve();
    await until(async () => (await driver.list('wv-'))[0]?.state === 'running', 'it runs');
    expect(daemon.provider.machines).toHaveLength(1);
  });

  it('lists a launch whose image came to nothing after a while as ended', async () => {
    const pulled = Promise.withResolvers<void>();
    daemon.engine.pullTakes = pulled.promise;
    daemon.engine.pullError = 'unexpected EOF';
    const driver = daemon.driver({ speed: 100 });
    await driver.launch(request({ image: 'large:v1' }));
    pulled.resolve();
    const [machine] = await until(async () => {
      const list = await driver.list('wv-');
      return list[0]?.state === 'ended' ? list : null;
    }, 'it has ended');
    expect(machine).toMatchObject({ exit_code: null, detail: expect.stringContaining('unexpected EOF') });
    expect(await driver.terminate(key)).toEqual({ kind: 'terminated' });
    expect(await driver.list('wv-')).toEqual([]);
  });

  it('gives a worker time to end, and shows the end of the log of one that ended by itself', async () => {
    const driver = daemon.driver();
    await driver.launch(request());
    await driver.terminate(key);
    expect(daemon.engine.stopped).toEqual([{ name: NAME, seconds: 35 }]);
    await driver.launch(request({ name: 'wv-abc123-small-2' }));
    daemon.provider.end(daemon.provider.alive[0]!, 10, 'CUDA out of memory');
    expect(await driver.list('wv-')).toMatchObject([
      { state: 'ended', exit_code: 10, detail: 'CUDA out of memory' },
    ]);
  });

  it('says where Docker cannot be reached', async () => {
    const away = new DockerDriver(
      { driver: 'docker', host: 'unix:///nonexistent/docker.sock', volumes: [] },
      portsOf(1),
    );
    await expect(away.list('wv-')).rejects.toThrow('Is it running, and may this user call it?');
    expect(
      () => new DockerDriver({ driver: 'docker', host: 'ssh://elsewhere', volumes: [] }, portsOf(1)),
    ).toThrow(UserError);
    const secret = { driver: 'docker' as const, host: 'http://me:hush@elsewhere', volumes: [] };
    expect(() => new DockerDriver(secret, portsOf(1))).toThrow('at "http://(secret)@elsewhere"');
  });
});
