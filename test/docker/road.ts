import type { JobView } from '../../src/protocol/index.ts';
import { until } from '../support/poll.ts';
import { newName, newVolume, start, untilLogged, urlOf } from './containers.ts';
import { IMAGES } from './images.ts';

/** Queue and workers as containers. */

export const TOKEN = 'a-token-of-these-tests';
/** As Kubernetes runs them: a user that the image does not know, and nothing that can be written but volumes. */
const LOCKED = ['--read-only', '--user', '12345:12345', '--tmpfs', '/tmp'];

export interface Queue {
  name: string;
  /** From this machine. */
  url: string;
}

export async function startQueue(network: string, ...more: string[]): Promise<Queue> {
  const state = `${await newVolume()}:/state`;
  const name = await start(
    newName('queue'),
    ...[...LOCKED, '--volume', state, '--network', network, '--publish', '127.0.0.1::8788'],
    ...['--env', `QUEUE_TOKENS=admin:${TOKEN}`, ...more, IMAGES.queue],
  );
  await untilLogged(name, /listening at/);
  return { name, url: await urlOf(name, 8788) };
}

/** Not waited for. */
export async function startWorker(
  network: string,
  queue: Queue,
  env: Record<string, string> = {},
): Promise<string> {
  const variables = {
    HOME: '/home/worker',
    ENGINE: 'simulator',
    VLLM_MODEL: 'tiny',
    VLLM_EXTRA_ARGS: '--inter-token-latency-ms 50',
    CASOLA_WS_URL: `ws://${queue.name}:8788`,
    CASOLA_API_URL: `http://${queue.name}:8788`,
    CASOLA_API_TOKEN: TOKEN,
    CASOLA_CONFIG_ID: 'cfg',
    ...env,
  };
  const given = Object.entries(variables).flatMap(([name, value]) => ['--env', `${name}=${value}`]);
  const name = newName('worker');
  const writable = ['--tmpfs', '/home/worker:mode=1777'];
  return await start(name, ...LOCKED, ...writable, '--network', network, ...given, IMAGES.worker);
}

export async function call<T>({ url }: Pick<Queue, 'url'>, path: string, body?: unknown): Promise<T> {
  const headers = { authorization: `Bearer ${TOKEN}` };
  const response = await fetch(`${url}${path}`, {
    headers,
    ...(body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }),
  });
  if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
  return (await response.json()) as T;
}

/** @param count of workers with slots */
export async function untilReady(queue: Queue, count = 1): Promise<void> {
  await until(
    async () => (await call<{ workers: number; slots: number }>(queue, '/health')).slots >= count,
    `${count} workers are ready`,
    { everyMs: 200 },
  );
}

export function jobOf(queue: Pick<Queue, 'url'>, id: string): Promise<JobView> {
  return call(queue, `/api/jobs/${id}`);
}

export async function untilJob(
  queue: Pick<Queue, 'url'>,
  id: string,
  state: JobView['state'],
  limit = { timeoutMs: 60_000, everyMs: 100 },
): Promise<JobView> {
  return await until(
    async () => {
      const job = await jobOf(queue, id);
      return job.state === state ? job : null;
    },
    `job ${id} is ${state}`,
    limit,
  );
}
