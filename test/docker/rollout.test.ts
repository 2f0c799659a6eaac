import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeEach, expect, it } from 'vitest';
import { freePort } from '../../src/process/free-port.ts';
import type { FleetView, PoolScaling } from '../../src/protocol/index.ts';
import { writeFleet } from '../support/fleet-road.ts';
import { until } from '../support/poll.ts';
import { type Child, stopAllProcesses } from '../support/processes.ts';
import { cli, stateFolder, tearDown } from '../support/road.ts';
import { docker, tried } from './containers.ts';
import { DaemonProxy } from './daemon-proxy.ts';
import { IMAGES } from './images.ts';
import { call, TOKEN } from './road.ts';

/**
 * A pool of a real daemon goes from one image to another, and to one that does not start and back by itself, while
 * callers read streams all the time.
 */

const LIMIT = { timeoutMs: 300_000, everyMs: 500 };
const STREAMS = Number(process.env.TEST_ROLLOUT_STREAMS ?? 50);
const TOKENS = 60;
const [FIRST, SECOND, BROKEN] = ['first', 'second', 'broken'].map(
  (tag) => `wvt-${process.pid}-roll:${tag}`,
) as [string, string, string];
let proxy: DaemonProxy;
let path: string;

beforeEach(async () => {
  proxy = await new DaemonProxy().listen();
  path = join(stateFolder(), 'fleet.yaml');
  await docker('tag', IMAGES.worker, FIRST);
  await docker('tag', IMAGES.worker, SECOND);
  // Its engine's program is missing, as in an image that was built wrong.
  const change = ['--change', 'ENTRYPOINT ["/opt/worker-vllm/entrypoint.sh"]'];
  const made = await docker('create', '--entrypoint', 'true', IMAGES.worker);
  await docker('commit', ...change, '--change', 'ENV VLLM_STARTUP_TIMEOUT=soon', made, BROKEN);
  await docker('rm', made);
});
afterEach(async () => {
  await stopAllProcesses();
  const left = await docker('ps', '--all', '--filter', 'name=^/wv-[a-z0-9]+-roll-', '--format', '{{.Names}}');
  if (left !== '') await docker('rm', '--force', ...left.split('\n'));
  for (const image of [FIRST, SECOND, BROKEN]) await tried('image', 'rm', image);
  proxy.close();
});
afterAll(tearDown);

function write(image: string): void {
  const env = {
    CASOLA_HEARTBEAT_INTERVAL: 2,
    CASOLA_SHUTDOWN_GRACE_PERIOD: 1,
    VLLM_EXTRA_ARGS: '--inter-token-latency-ms 40 --enable-scale-out',
  };
  const machines = [{ provider: 'box' }];
  const roll = { image, machines, env, slots: STREAMS, min: 2, max: 3 };
  writeFleet(path, { providers: { box: { driver: 'docker', host: proxy.host } }, pools: { roll } });
}

/** Callers who read one stream after another until they are told to stop. */
class Callers {
  readonly #url: string;
  readonly #stop = new AbortController();
  readonly #all: Promise<unknown>;
  readonly failed: string[] = [];
  streams = 0;

  constructor(url: string) {
    this.#url = url;
    this.#all = Promise.all(Array.from({ length: STREAMS }, (_, at) => this.#read(at)));
  }

  /** Ends once each has read its last stream. */
  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#all;
  }

  async #read(at: number): Promise<void> {
    // They are not all at the same token.
    await sleep(at * 37);
    while (!this.#stop.signal.aborted) {
      const problem = await this.#stream().catch(
        (error: Error) => `${error.message}: ${String(error.cause)}`,
      );
      this.streams += 1;
      if (problem !== null) this.failed.push(problem);
    }
  }

  /** Reads a stream to its end. @returns what is wrong with it, or null */
  async #stream(): Promise<string | null> {
    const response = await fetch(`${this.#url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${TOKEN}` },
      body: JSON.stringify({
        ...{ model: 'tiny', stream: true, stream_options: { include_usage: true } },
        ...{ max_tokens: TOKENS, ignore_eos: true, messages: [{ role: 'user', content: 'Hi' }] },
      }),
    });
    const text = await response.text();
    if (response.status !== 200) return `${response.status} ${text}`;
    if (!text.trimEnd().endsWith('data: [DONE]') || /"error"/.test(text)) return text.slice(-400);
    const made = [...text.matchAll(/"completion_tokens":\s*(\d+)/g)].at(-1)?.[1];
    return made === String(TOKENS) ? null : `${made} tokens of ${TOKENS}`;
  }
}

it('goes to another image, and from a broken one back, and no stream fails or is counted twice', async () => {
  write(FIRST);
  const host = await docker('network', 'inspect', 'bridge', '--format', '{{(index .IPAM.Config 0).Gateway}}');
  const url = `http://${host}:${await freePort()}`;
  const up = cli(
    ['up', '--fleet', path, '--host', host, '--port', new URL(url).port, '--state', stateFolder()],
    { QUEUE_TOKENS: `admin:${TOKEN}` },
  );
  const pool = async (): Promise<PoolScaling> => {
    const { pools } = await call<FleetView>({ url }, '/api/fleet');
    return pools.find(({ config_id }) => config_id === 'roll')!.scaling!;
  };
  const settled = (version: string) =>
    until(
      async () => {
        const { rollout, versions, ready } = await pool();
        const [mine, ...others] = [...versions].sort((one) => (one.version === version ? -1 : 1));
        const isDone = rollout === null || rollout.state === 'stopped';
        const isAlone = others.every((one) => one.ready + one.starting + one.draining === 0);
        return isDone && ready >= 2 && mine?.version === version && mine.is_proved && isAlone;
      },
      `all workers have ${version}`,
      LIMIT,
    );
  const wanted = async () => (await pool()).versions.find(({ state }) => state === 'wanted')!.version;
  const status = async () => {
    const command = cli(['fleet', 'status', '--url', url], { CASOLA_API_TOKEN: TOKEN });
    await command.exited;
    return command.output();
  };
  await up.waitForLine(/Workers start when requests come|roll/);
  await until(async () => (await pool()).ready === 2, 'two workers are ready', LIMIT);
  const callers = new Callers(url);
  const first = await wanted();
  await settled(first);

  write(SECOND);
  await until(async () => (await wanted()) !== first, 'the file is in force', LIMIT);
  const second = await wanted();
  await settled(second);

  write(BROKEN);
  await until(async () => (await pool()).rollout?.state === 'stopped', 'the broken image is given up', LIMIT);
  await settled(second);
  expect(await status(), up.output()).toMatch(/stopped.*VLLM_STARTUP_TIMEOUT/s);

  await callers.stop();
  expect(callers.failed, up.output()).toEqual([]);
  const { total } = await call<{ total: Record<string, number> }>({ url }, '/api/usage?days=2');
  expect(total).toMatchObject({
    ...{ succeeded: callers.streams, failed: 0 },
    output: callers.streams * TOKENS,
  });
  await end(up);
});

async function end(up: Child): Promise<void> {
  up.kill('SIGTERM');
  expect((await up.exited).code, up.output()).toBe(0);
}
