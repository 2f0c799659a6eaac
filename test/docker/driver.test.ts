import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { freePort } from '../../src/process/free-port.ts';
import { until } from '../support/poll.ts';
import { docker, newName, removeAll, start, stateOf, tried } from './containers.ts';
import { DaemonProxy } from './daemon-proxy.ts';
import { driverOf, requestOf } from './driver-set-up.ts';
import { IMAGES } from './images.ts';
import { Registry } from './registry.ts';

const PREFIX = `wv-d${process.pid}-`;
const LIMIT = { timeoutMs: 100_000, everyMs: 100 };
let name: string;
let count = 0;

beforeEach(() => {
  name = `${PREFIX}small-${++count}`;
});
afterEach(async () => {
  removeAll();
  const left = await docker('ps', '--all', '--quiet', '--filter', `name=^/${PREFIX}`);
  if (left) await docker('rm', '--force', ...left.split('\n'));
});

const machineOf = async (driver = driverOf()) => (await driver.list(name))[0];
const key = () => ({ name, external_id: name });

describe('a container at a real daemon', () => {
  it('is listed with how it ended: killed, out of memory, or by itself with its last words', async () => {
    const driver = driverOf();
    const ended = async () =>
      (await until(async () => (await machineOf())?.state === 'ended', 'it has ended', LIMIT)) && machineOf();
    await driver.launch(requestOf(name));
    expect(await machineOf()).toMatchObject({ state: 'running', started_at: expect.any(Number) });
    await docker('kill', name);
    expect(await ended()).toMatchObject({ exit_code: 137, ended_at: expect.any(Number) });
    expect(await driver.terminate(key())).toEqual({ kind: 'terminated' });

    await driver.launch(requestOf(name));
    await docker('update', '--memory', '32m', '--memory-swap', '32m', name);
    await docker('exec', name, 'touch', '/tmp/hog');
    expect(await ended()).toMatchObject({
      exit_code: 137,
      detail: expect.stringContaining('killed for lack of memory'),
    });
    expect(await driver.terminate(key())).toEqual({ kind: 'terminated' });
    expect(await driver.list(PREFIX)).toEqual([]);
  });

  it('is terminated also where it is paused', async () => {
    const driver = driverOf();
    await driver.launch(requestOf(name, { env: { CASOLA_SHUTDOWN_GRACE_PERIOD: '1' } }));
    await docker('pause', name);
    expect(await machineOf()).toMatchObject({ state: 'running' });
    expect(await driver.terminate(key())).toEqual({ kind: 'terminated' });
    expect((await tried('inspect', name)).code).not.toBe(0);
  });

  it('is told to be unstarted where its launcher died before it started it, and is started by the next launch', async () => {
    const proxy = await new DaemonProxy().listen();
    try {
      proxy.holds = /^POST \/containers\/[^/]+\/start/;
      void driverOf({ host: proxy.host }).launch(requestOf(name));
      await until(() => proxy.held.length > 0, 'it is about to be started');
      expect(await machineOf()).toMatchObject({ state: 'starting', unstarted: true, started_at: null });
      expect(await driverOf().launch(requestOf(name, { may_exist: true }))).toMatchObject({
        kind: 'launched',
      });
      const machine = await machineOf();
      expect(machine).toMatchObject({ state: 'running' });
      expect(machine).not.toHaveProperty('unstarted');
    } finally {
      proxy.close();
    }
  });

  it('that somebody else made is neither adopted nor started nor ended', async () => {
    await docker('create', '--name', name, IMAGES.sleeper);
    const driver = driverOf();
    for (const may_exist of [false, true]) {
      const outcome = await driver.launch(requestOf(name, { may_exist }));
      expect(outcome).toMatchObject({
        kind: 'rejected',
        detail: expect.stringContaining('made by somebody else'),
      });
    }
    expect(await driver.list(PREFIX)).toEqual([]);
    expect(await stateOf(name)).toMatchObject({ Status: 'created' });
    await docker('start', name);
    expect(await driver.terminate(key())).toMatchObject({ kind: 'unknown' });
    expect(await stateOf(name)).toMatchObject({ Status: 'running' });
  });

  it('that cannot be started is refused with the reason, and removed', async () => {
    const image = newName('broken');
    try {
      await docker(
        'commit',
        '--change',
        'CMD ["/no-such-program"]',
        await start(newName('base'), IMAGES.sleeper),
        image,
      );
      // Without tini, which starts before it looks.
      const outcome = await driverOf({ volumes: ['/no-such-program:/sbin/docker-init'] }).launch(
        requestOf(name, { image }),
      );
      expect(outcome).toMatchObject({
        kind: 'rejected',
        detail: expect.stringContaining('cannot be started'),
      });
      expect(await driverOf().list(PREFIX)).toEqual([]);
    } finally {
      await tried('image', 'rm', '--force', image);
    }
  });
});

describe('an image that the daemon has not', () => {
  const registry = new Registry();
  let image: string;
  beforeAll(async () => {
    await registry.serve(IMAGES.sleeper);
    image = `${registry.address}/image:v1`;
  });
  afterEach(async () => {
    registry.takes = Promise.resolve();
    await tried('image', 'rm', '--force', image);
  });
  afterAll(() => registry.stop());

  it('is pulled', async () => {
    expect(await driverOf().launch(requestOf(name, { image }))).toMatchObject({ kind: 'launched' });
    const running = async () => (await machineOf())?.state === 'running';
    await until(running, 'it runs', LIMIT);
  });

  it('and its registry neither is refused', async () => {
    const missing = image.replace(':v1', ':v2');
    expect(await driverOf().launch(requestOf(name, { image: missing }))).toMatchObject({
      kind: 'rejected',
      detail: expect.stringMatching(/cannot be had.*manifest unknown/),
    });
  });

  it('may be had later where its registry does not answer', async () => {
    const away = `127.0.0.1:${await freePort()}/image:v1`;
    expect(await driverOf().launch(requestOf(name, { image: away }))).toMatchObject({
      kind: 'unknown',
      detail: expect.stringMatching(/cannot be had.*connection refused/),
    });
    expect(await driverOf().list(PREFIX)).toEqual([]);
  });

  it('is listed while it takes long, and its container is made once', async () => {
    const sent = Promise.withResolvers<void>();
    registry.takes = sent.promise;
    // Its 15 s are over in 150 ms.
    const driver = driverOf({}, 100);
    expect(await driver.launch(requestOf(name, { image }))).toMatchObject({ kind: 'launched' });
    expect(await machineOf(driver)).toMatchObject({
      state: 'starting',
      detail: expect.stringContaining('pulling'),
    });
    expect(await driver.launch(requestOf(name, { image, may_exist: true }))).toMatchObject({
      kind: 'launched',
    });
    sent.resolve();
    await until(async () => (await machineOf(driver))?.state === 'running', 'it runs', LIMIT);
    expect(await driver.list(PREFIX)).toHaveLength(1);
  });

  it('makes no container of a launch that was terminated meanwhile', async () => {
    const sent = Promise.withResolvers<void>();
    registry.takes = sent.promise;
    const driver = driverOf({}, 100);
    await driver.launch(requestOf(name, { image }));
    expect(await driver.terminate(key())).toEqual({ kind: 'terminated' });
    sent.resolve();
    // Another launch of the image waits for the same.
    const other = `${name}-other`;
    await driver.launch(requestOf(other, { image }));
    await until(async () => (await driver.list(other))[0]?.state === 'running', 'the other runs', LIMIT);
    expect((await driver.list(PREFIX)).map((machine) => machine.name)).toEqual([other]);
  });
});
