import { execFileSync, spawnSync } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import type { FleetView, PoolScaling } from '../../src/protocol/index.ts';
import { until } from './poll.ts';
import { cli } from './road.ts';

/** A pool that goes from image to image on a real daemon or cluster, while callers read streams all the time. */

const LIMIT = { timeoutMs: 300_000, everyMs: 500 };
const STREAMS = Number(process.env.TEST_ROLLOUT_STREAMS ?? 50);
const TOKENS = 60;

/** The fields of a pool whose workers answer all the callers, and whose answers take some seconds. */
export const ROLLING_POOL = {
  env: {
    CASOLA_HEARTBEAT_INTERVAL: 2,
    CASOLA_SHUTDOWN_GRACE_PERIOD: 1,
    VLLM_EXTRA_ARGS: '--inter-token-latency-ms 40 --enable-scale-out',
  },
  slots: STREAMS,
  min: 2,
  max: 3,
};

export interface Images {
  first: string;
  second: string;
  /** A worker of it ends at its start: one of its variables is none. */
  broken: string;
}

/** Makes images of one that works, by the `docker` of this process's environment. */
export function makeImages(worker: string): Images {
  const [first, second, broken] = ['first', 'second', 'broken'].map(
    (tag) => `wvt-${process.pid}-roll:${tag}`,
  );
  const docker = (...args: string[]) => execFileSync('docker', args, { encoding: 'utf8' }).trim();
  docker('tag', worker, first!);
  docker('tag', worker, second!);
  const container = docker('create', worker);
  docker('commit', '--change', 'ENV VLLM_STARTUP_TIMEOUT=soon', container, broken!);
  docker('rm', container);
  return { first: first!, second: second!, broken: broken! };
}

/** Removes what `makeImages` made, as far as nothing runs of it. */
export function removeImages(images: Images): void {
  spawnSync('docker', ['image', 'rm', '--force', ...Object.values(images)], { stdio: 'ignore' });
}

interface Rolled {
  url: string;
  token: string;
  configId: string;
  images: Images;
  /** Puts an image into the fleet's file. The first is there. */
  write(image: string): void;
  /** What is said of the worker of the broken image. */
  why: RegExp;
}

/**
 * Has the pool go to the second image, then to the broken one, from which it goes back by itself, and holds that no
 * stream fails, that each is counted once, and that `fleet status` says why.
 */
export async function expectRolled({ url, token, configId, images, write, why }: Rolled): Promise<void> {
  const get = async <T>(path: string) => {
    const response = await fetch(`${url}${path}`, { headers: { authorization: `Bearer ${token}` } });
    return (await response.json()) as T;
  };
  const pool = async (): Promise<PoolScaling> => {
    const { pools } = await get<FleetView>('/api/fleet');
    return pools.find(({ config_id }) => config_id === configId)!.scaling!;
  };
  const wanted = async () => (await pool()).versions.find(({ state }) => state === 'wanted')!.version;
  const settled = (version: string) =>
    until(
      async () => {
        const { rollout, versions, ready } = await pool();
        const mine = versions.find((one) => one.version === version);
        const others = versions.filter((one) => one !== mine);
        const isAlone = others.every((one) => one.ready + one.starting + one.draining === 0);
        return rollout?.state !== 'rolling' && ready >= 2 && mine?.is_proved && isAlone;
      },
      `all workers have ${version}`,
      LIMIT,
    );
  await until(async () => (await pool()).ready === 2, 'two workers are ready', LIMIT);
  const first = await wanted();
  const callers = new StreamCallers(url, token);
  try {
    await settled(first);
    write(images.second);
    await until(async () => (await wanted()) !== first, 'the file is in force', LIMIT);
    const second = await wanted();
    await settled(second);
    write(images.broken);
    await until(async () => (await pool()).rollout?.state === 'stopped', 'the image is given up', LIMIT);
    await settled(second);
  } finally {
    await callers.stop();
  }
  expect(callers.failed).toEqual([]);
  const { total } = await get<{ total: Record<string, number> }>('/api/usage?days=2');
  expect(total).toMatchObject({
    ...{ succeeded: callers.streams, failed: 0 },
    output: callers.streams * TOKENS,
  });
  const status = cli(['fleet', 'status', '--url', url], { CASOLA_API_TOKEN: token });
  await status.exited;
  const stopped = status
    .output()
    .split('\n')
    .find((line) => line.includes('Rollout stopped'));
  expect(stopped, status.output()).toMatch(why);
}

/** Callers who read one stream after another until they are told to stop. */
class StreamCallers {
  readonly #url: string;
  readonly #token: string;
  readonly #all: Promise<unknown>;
  #isOver = false;
  readonly failed: string[] = [];
  /** The number of streams that were read. */
  streams = 0;

  constructor(url: string, token: string) {
    this.#url = url;
    this.#token = token;
    this.#all = Promise.all(Array.from({ length: STREAMS }, (_, at) => this.#read(at)));
  }

  /** Ends once each has read its last stream. */
  async stop(): Promise<void> {
    this.#isOver = true;
    await this.#all;
  }

  async #read(at: number): Promise<void> {
    // Their streams are at different tokens at any moment.
    await sleep(at * 37);
    while (!this.#isOver) {
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
      headers: { authorization: `Bearer ${this.#token}` },
      body: JSON.stringify({
        ...{ model: 'tiny', stream: true, stream_options: { include_usage: true } },
        ...{ max_tokens: TOKENS, ignore_eos: true, messages: [{ role: 'user', content: 'Hi' }] },
      }),
    });
    const text = await response.text();
    if (response.status !== 200) return `${response.status} ${text}`;
    if (!text.trimEnd().endsWith('data: [DONE]') || text.includes('"error"')) return text.slice(-400);
    const made = [...text.matchAll(/"completion_tokens":\s*(\d+)/g)].at(-1)?.[1];
    return made === String(TOKENS) ? null : `${made} tokens of ${TOKENS}`;
  }
}
