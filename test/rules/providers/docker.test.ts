import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { UserError } from '../../../src/process/exit-codes.ts';
import { DockerDriver } from '../../../src/providers/docker/driver.ts';
import type { DriverPorts, LaunchRequest } from '../../../src/providers/driver.ts';
import { FakeDockerEngine } from '../../../src/providers/fakes/docker-engine.ts';
import { FakeProvider } from '../../../src/providers/fakes/fake-provider.ts';
import { driverContract } from '../../support/driver-contract.ts';
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

describe('the driver of Docker', () => {
  let daemon: Awaited<ReturnType<typeof startDaemon>>;
  beforeEach(async () => {
    daemon = await startDaemon();
  });
  afterEach(() => daemon.close());

  const request = (more: Partial<LaunchRequest> = {}): LaunchRequest => ({
    name: NAME,
    may_exist: false,
    kind: 'local',
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

  it('starts a container that was created and not started', async () => {
    const driver = daemon.driver();
    daemon.provider.accidents.created_but_5xx = 1;
    expect(await driver.launch(request())).toMatchObject({ kind: 'unknown' });
    expect(await driver.list('wv-')).toMatchObject([{ state: 'starting' }]);
    expect(await driver.launch(request({ may_exist: true }))).toMatchObject({ kind: 'launched' });
    expect(await driver.list('wv-')).toMatchObject([{ state: 'running' }]);
  });

  it('says why a container cannot be started, and removes it', async () => {
    daemon.provider.accidents.created_but_error = 1;
    expect(await daemon.driver().launch(request())).toMatchObject({
      kind: 'rejected',
      detail: expect.stringContaining('could not select device driver'),
    });
    expect(daemon.provider.alive).toEqual([]);
  });

  it('pulls an image that is absent', async () => {
    const image = 'registry.example.com/team/worker:v2';
    expect(await daemon.driver().launch(request({ image }))).toMatchObject({ kind: 'launched' });
    expect(daemon.engine.images).toContain(image);
    expect(daemon.provider.alive).toHaveLength(1);
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

  it('creates nothing of a launch that is terminated while its image is pulled', async () => {
    const pulled = Promise.withResolvers<void>();
    daemon.engine.pullTakes = pulled.promise;
    const driver = daemon.driver({ speed: 100 });
    await driver.launch(request({ image: 'large:v1' }));
    expect(await driver.terminate(key)).toEqual({ kind: 'terminated' });
    pulled.resolve();
    await until(() => daemon.engine.images.has('large:v1'), 'the daemon has the image');
    expect(await driver.list('wv-')).toEqual([]);
    expect(daemon.provider.machines).toEqual([]);
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
  });
});

describe.skipIf(!process.env.DOCKER_HOST)('the driver of Docker with the daemon at DOCKER_HOST', () => {
  it('launches a container, lists it with its exit code, and ends it', { timeout: 300_000 }, async () => {
    const driver = new DockerDriver({ driver: 'docker', volumes: [] }, { ...portsOf(1), env: process.env });
    const name = `wv-test${process.pid}-small-1`;
    const of = async () => (await driver.list(name))[0];
    const request = { name, may_exist: false, kind: 'local', gpus: 0, disk_gb: null, price_per_hour: null };
    try {
      // Runs nothing of ours: it prints a greeting and ends with 0.
      const outcome = await driver.launch({ ...request, image: 'hello-world:latest', env: {} });
      expect(outcome).toMatchObject({ kind: 'launched' });
      const ended = await until(
        async () => ((await of())?.state === 'ended' ? await of() : null),
        'it has ended',
        { timeoutMs: 200_000 },
      );
      expect(ended).toMatchObject({ exit_code: 0, detail: expect.stringContaining('Hello') });
    } finally {
      expect(await driver.terminate({ name, external_id: name })).toEqual({ kind: 'terminated' });
    }
    expect(await of()).toBeUndefined();
  });
});
