import { afterAll, beforeAll, describe } from 'vitest';
import { until } from '../support/poll.ts';
import { freePort } from '../support/ports.ts';
import { type Child, groupLives, killGroup } from '../support/processes.ts';
import { closeRawWorkers, RawWorker } from '../support/raw-worker.ts';
import { cli, stateFolder, tearDown } from '../support/road.ts';
import { startWranglerDev } from '../support/wrangler-dev.ts';

interface Started {
  port: number;
  stateDir: string;
  env: Record<string, string>;
}

/** How each host serves a queue. */
const HOSTS: Record<string, (started: Started) => Child | Promise<Child>> = {
  node: ({ port, stateDir, env }) => cli(['queue', '--port', String(port), '--state', stateDir], env),
  cloudflare: startWranglerDev,
};

/** Gateway and objects of all kinds, as users start them. */
export class QueueUnderTest {
  readonly #start: (typeof HOSTS)[string];
  readonly #env: Record<string, string>;
  #started!: Started;
  #process!: Child;
  #queues = 0;

  constructor(start: (typeof HOSTS)[string], env: Record<string, string>) {
    this.#start = start;
    this.#env = env;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#started.port}`;
  }

  async begin(): Promise<void> {
    this.#started = { port: await freePort(), stateDir: stateFolder(), env: this.#env };
    await this.start();
  }

  /** On what is stored. @param env settings of this start alone */
  async start(env: Record<string, string> = {}): Promise<void> {
    this.#process = await this.#start({ ...this.#started, env: { ...this.#env, ...env } });
    await this.#process.waitForLine(/listening at|Ready on/);
  }

  /** Ends all of it without a word. */
  async kill(): Promise<void> {
    const { pid, exited } = this.#process;
    killGroup(pid);
    await exited;
    await until(() => !groupLives(pid), 'the queue is gone');
  }

  /** The id of a queue that no other test has. */
  newQueue(): string {
    return `q${++this.#queues}`;
  }

  ask(queueId: string, path: string, init: RequestInit = {}): Promise<Response> {
    return fetch(this.url + path, { ...init, headers: { 'x-queue-id': queueId, ...init.headers } });
  }

  /** @param body of a POST; left out: a GET */
  async json(queueId: string, path: string, body?: object): Promise<Record<string, unknown>> {
    const init = body && {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    };
    return (await (await this.ask(queueId, path, init)).json()) as Record<string, unknown>;
  }

  async worker(queueId: string, name = 'w', more: Record<string, unknown> = {}): Promise<RawWorker> {
    return await (await new RawWorker(this.url).connect(queueId)).register(name, more);
  }
}

/**
 * Asks the same of a queue on every host, of all of them at once and of each one thing at a time.
 * @param env settings, as `worker-vllm queue` reads them
 */
export function promisesOfQueues(
  env: Record<string, string>,
  promises: (queue: QueueUnderTest) => void,
): void {
  afterAll(async () => {
    closeRawWorkers();
    await tearDown();
  });
  describe.concurrent.each(Object.keys(HOSTS))('a queue on %s', (name) => {
    const queue = new QueueUnderTest(HOSTS[name]!, { QUEUE_IDS: '*', ...env });
    beforeAll(() => queue.begin());
    describe('promises', { concurrent: false }, () => promises(queue));
  });
}
