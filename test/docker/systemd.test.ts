import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { JobView } from '../../src/protocol/index.ts';
import { until } from '../support/poll.ts';
import { chatJob } from '../support/road.ts';
import { docker, newName, removeAll, start, tried, urlOf } from './containers.ts';
import { IMAGES } from './images.ts';
import { call, jobOf, type Queue, TOKEN, untilReady } from './road.ts';

const REPOSITORY = join(import.meta.dirname, '../..');
const UNITS = join(REPOSITORY, 'deploy/systemd');
const IMAGE = `worker-vllm-test-systemd:${process.pid}`;
const canRun = process.getuid?.() === 0 && existsSync('/etc/debian_version');

const QUEUE = 'worker-vllm-queue';
const WORKER = 'worker-vllm-worker';
const GATEWAY = 'worker-vllm-gateway@8790';
const LAUNCHER = 'worker-vllm-launcher';
const ALL = [QUEUE, GATEWAY, LAUNCHER, WORKER];

/** The files that a user writes into /etc/worker-vllm. */
const SETTINGS = {
  queue: `QUEUE_HOST=0.0.0.0\nQUEUE_TOKENS=admin:${TOKEN}\n`,
  gateway: `GATEWAY_HOST=0.0.0.0\nGATEWAY_QUEUE=http://127.0.0.1:8788\nGATEWAY_TOKEN=${TOKEN}\n`,
  launcher: `CASOLA_API_TOKEN=${TOKEN}\n`,
  worker: `CASOLA_WS_URL=ws://127.0.0.1:8788
CASOLA_API_URL=http://127.0.0.1:8788
CASOLA_API_TOKEN=${TOKEN}
CASOLA_CONFIG_ID=cfg
VLLM_MODEL=tiny
ENGINE=simulator
VLLM_EXTRA_ARGS=--inter-token-latency-ms 50
`,
};

const machine = newName('systemd');
const on = (...command: string[]) => docker('exec', machine, ...command);
let queue: Queue;
let gateway: { url: string };

describe.runIf(canRun)('the units, under systemd as PID 1', () => {
  beforeAll(async () => {
    const scratch = mkdtempSync(join(tmpdir(), 'wv-systemd-'));
    execFileSync(join(REPOSITORY, 'scripts/docker/systemd.sh'), [scratch, IMAGES.queue, IMAGE], {
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    await startMachine();
    await until(
      async () => (await tried('exec', machine, 'systemctl', 'status')).code === 0,
      'systemd answers',
    );
    await on('mkdir', '--mode=700', '/etc/worker-vllm');
    await on('mkdir', '/etc/sysusers.d');
    await docker('cp', `${UNITS}/.`, `${machine}:/etc/systemd/system/`);
    await on('mv', '/etc/systemd/system/sysusers.conf', '/etc/sysusers.d/worker-vllm.conf');
    await on('systemd-sysusers');
    await on('systemctl', 'daemon-reload');
    for (const [name, text] of Object.entries(SETTINGS)) await write(name, text);
    await on('systemctl', 'start', ...ALL);
    queue = { name: machine, url: await urlOf(machine, 8788) };
    gateway = { url: await urlOf(machine, 8790) };
    await until(async () => (await fetch(`${queue.url}/health`).catch(() => null))?.ok, 'the queue answers');
    await untilReady(queue);
  });

  afterAll(async () => {
    removeAll();
    await tried('image', 'rm', '--force', IMAGE);
  });

  it('are without a mistake that systemd knows, and answer requests at queue and gateway', async () => {
    const verified = await tried(
      'exec',
      machine,
      'sh',
      '-c',
      'systemd-analyze verify /etc/systemd/system/worker-*',
    );
    expect(verified).toMatchObject({ code: 0, stdout: '', stderr: '' });
    for (const at of [queue, gateway]) {
      await until(async () => (await fetch(`${at.url}/health`).catch(() => null))?.ok, 'it answers');
      const chat = { model: 'tiny', messages: [{ role: 'user', content: 'Hi' }], max_tokens: 2 };
      expect(await call(at, '/v1/chat/completions', chat)).toMatchObject({ object: 'chat.completion' });
    }
  });

  it('start a worker as a process of the launcher, which is not ended with it', async () => {
    const pool = {
      engine: 'simulator',
      model: 'second',
      slots: 1,
      min: 1,
      max: 1,
      machines: [{ provider: 'here' }],
    };
    const spec = { providers: { here: { driver: 'process' } }, pools: { second: pool } };
    await call(queue, '/api/fleet/spec', { spec });
    const chat = { model: 'second', messages: [{ role: 'user', content: 'Hi' }], max_tokens: 2 };
    expect(await call(queue, '/v1/chat/completions', chat)).toMatchObject({ model: 'second' });
    const workers = () => on('pgrep', '--full', 'programs/worker.js');
    const before = await workers();
    await on('systemctl', 'restart', LAUNCHER);
    expect(await workers()).toBe(before);
  });

  it('run as a user of their own, who can write to their own folders alone', async () => {
    const uid = await on('id', '--user', 'worker-vllm');
    for (const { MainPID: pid } of await shown()) {
      const status = await on('cat', `/proc/${pid}/status`);
      expect(status).toMatch(new RegExp(`^Uid:\\t${uid}\\t`, 'm'));
      expect(status).toMatch(/^NoNewPrivs:\t1$/m);
      expect(status).toMatch(/^CapBnd:\t0+$/m);
      const written = await tried(
        'exec',
        machine,
        'nsenter',
        '--mount',
        '--target',
        pid,
        'touch',
        '/etc/new',
      );
      expect(written.stderr).toContain('Read-only file system');
    }
    expect(await on('stat', '--format=%U %a', '/var/lib/worker-vllm/queue')).toBe('worker-vllm 700');
  });

  it('start again after kill -9, and answer again', async () => {
    await on('systemctl', 'kill', '--signal=KILL', '--kill-who=main', ...ALL);
    const areRestarted = async () => (await shown()).every(({ NRestarts }) => NRestarts === '1');
    await until(areRestarted, 'all are started again', { everyMs: 300 });
    await until(
      async () => (await fetch(`${gateway.url}/health`).catch(() => null))?.ok,
      'the gateway answers',
    );
    await untilReady(queue);
    const chat = { model: 'tiny', messages: [{ role: 'user', content: 'Hi' }], max_tokens: 2 };
    expect(await call(gateway, '/v1/chat/completions', chat)).toMatchObject({ object: 'chat.completion' });
  });

  it('stop with what runs done, and end with 0', async () => {
    const { id } = await call<JobView>(queue, '/api/jobs', chatJob(60));
    // Where this process stands still for its three seconds, it is over before anybody looks.
    await until(async () => (await jobOf(queue, id)).state !== 'pending', 'it runs');
    await on('systemctl', 'stop', WORKER);
    expect(await jobOf(queue, id)).toMatchObject({ state: 'succeeded', attempts: 1 });
    await on('systemctl', 'stop', GATEWAY, LAUNCHER, QUEUE);
    const done = { ActiveState: 'inactive', Result: 'success', ExecMainStatus: '0' };
    expect(await shown()).toMatchObject(ALL.map(() => done));
  });

  it('fail without a loop where a setting is wrong', async () => {
    const wrong = {
      queue: 'QUEUE_LEASE_SECONDS=soon',
      gateway: 'GATEWAY_QUEUE=queue',
      launcher: 'QUEUE_URL=queue',
      worker: 'CASOLA_MAX_JOBS=many',
    };
    for (const [name, text] of Object.entries(wrong))
      await write(name, `${SETTINGS[name as 'queue']}${text}\n`);
    await on('systemctl', 'reset-failed');
    await tried('exec', machine, 'systemctl', 'start', ...ALL);
    // A unit that is to be started again is "activating" until then.
    const haveFailed = async () => (await shown()).every(({ ActiveState }) => ActiveState === 'failed');
    await until(haveFailed, 'all have failed', { everyMs: 300 });
    const refused = { Result: 'exit-code', ExecMainStatus: '2', NRestarts: '0' };
    expect(await shown()).toMatchObject(ALL.map(() => refused));
  });
});

/** As the container that may do everything, or where this machine itself may not, with all that this one has. */
async function startMachine(): Promise<void> {
  const args = ['--cgroupns=private', '--tmpfs', '/run', '--tmpfs', '/tmp', '--env', 'container=docker'];
  const ports = ['--publish', '127.0.0.1::8788', '--publish', '127.0.0.1::8790'];
  const unconfined = ['seccomp', 'apparmor', 'systempaths'].flatMap((name) => [
    '--security-opt',
    `${name}=unconfined`,
  ]);
  try {
    await start(machine, '--privileged', ...args, ...ports, IMAGE);
  } catch {
    await docker('rm', '--force', machine);
    const rights = ['--cap-add', 'ALL', '--cap-drop', 'SYS_RESOURCE', ...unconfined];
    await start(machine, ...rights, ...args, ...ports, IMAGE);
  }
}

async function write(name: string, text: string): Promise<void> {
  await on('sh', '-c', 'printf %s "$1" >"$0"', `/etc/worker-vllm/${name}.env`, text);
}

interface Shown {
  ActiveState: string;
  Result: string;
  ExecMainStatus: string;
  MainPID: string;
  NRestarts: string;
}

/** Returns what systemd knows of all units, in their order. It is asked once, since each call into a container takes a while. */
async function shown(): Promise<Shown[]> {
  const text = await on(
    'systemctl',
    'show',
    '--property=ActiveState,Result,ExecMainStatus,MainPID,NRestarts',
    ...ALL,
  );
  return text
    .split('\n\n')
    .map((part) => Object.fromEntries(part.split('\n').map((line) => line.split(/=(.*)/s, 2))));
}
