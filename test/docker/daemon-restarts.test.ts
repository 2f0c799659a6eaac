import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { freePort } from '../../src/process/free-port.ts';
import type { FleetView, JobView } from '../../src/protocol/index.ts';
import { isAlive, writeFleet } from '../support/fleet-road.ts';
import { until } from '../support/poll.ts';
import { chatJob, cli, stateFolder, tearDown } from '../support/road.ts';
import { IMAGES } from './images.ts';
import { call, jobOf, TOKEN, untilJob } from './road.ts';

const LIMIT = { timeoutMs: 150_000, everyMs: 200 };
const canRun = process.getuid?.() === 0 && existsSync('/etc/debian_version');
const script = join(import.meta.dirname, '../../scripts/docker/daemon.sh');
let folder: string;
let host: string;
const daemon = (command: string) =>
  execFileSync(script, [command, folder], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] }).trim();

/** Another daemon, since all containers of one end with it. */
beforeAll(() => {
  if (!canRun) return;
  folder = mkdtempSync(join(tmpdir(), 'wv-docker-'));
  host = daemon('up');
  execFileSync('sh', ['-c', 'docker save "$1" | docker --host "$2" load', 'sh', IMAGES.worker, host], {
    stdio: 'ignore',
  });
});
afterAll(async () => {
  await tearDown();
  if (folder) daemon('down');
});

it.skipIf(!canRun)('a fleet whose daemon is stopped and started goes on, each job done once', async () => {
  const path = join(stateFolder(), 'fleet.yaml');
  const env = { CASOLA_HEARTBEAT_INTERVAL: 2, VLLM_EXTRA_ARGS: '--inter-token-latency-ms 200' };
  writeFleet(path, {
    providers: { box: { driver: 'docker', host } },
    pools: { restarted: { image: IMAGES.worker, slots: 2, max: 1, env, machines: [{ provider: 'box' }] } },
  });
  const port = String(await freePort());
  const queue = { url: `http://127.0.0.1:${port}` };
  await cli(['queue', '--host', '0.0.0.0', '--port', port, '--state', stateFolder()], {
    QUEUE_TOKENS: `admin:${TOKEN}`,
  }).waitForLine(/listening at/);
  const workerUrl = queue.url.replace('127.0.0.1', 'host.docker.internal');
  const launcher = cli(
    ['launcher', path, '--url', queue.url, '--worker-url', workerUrl, '--state', stateFolder()],
    { CASOLA_API_TOKEN: TOKEN },
  );
  // Twenty seconds of work.
  const job = await call<JobView>(queue, '/api/jobs', chatJob(100, { config_id: 'restarted' }));
  await untilJob(queue, job.id, 'leased', LIMIT);
  daemon('stop');
  const launches = async () => (await call<FleetView>(queue, '/api/fleet')).launches;
  await launcher.waitForLine(/Docker does not answer/);
  // A list that cannot be had says nothing of what is there.
  expect(await launches()).toHaveLength(1);
  daemon('up');

  await untilJob(queue, job.id, 'succeeded', LIMIT);
  await until(async () => !(await launches()).some(isAlive), 'all launches are over', LIMIT);
  expect(await launches(), launcher.output()).toHaveLength(2);
  expect(execFileSync('docker', ['--host', host, 'ps', '--all', '--quiet'], { encoding: 'utf8' })).toBe('');
  expect((await jobOf(queue, job.id)).fence_token).toBeGreaterThan(job.fence_token);
});
