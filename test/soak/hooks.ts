import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { JobView } from '../../src/protocol/index.ts';
import { type Receiver, startReceiver } from '../support/receiver.ts';

/** A post that was lost with the queue's process is sent again after 60 s. */
const POSTED_WITHIN_MS = 120_000;

/** Who is told of the end of every job of a soak: each at least once, and never of two ends. */
export class SoakHooks {
  readonly #receiver: Receiver;
  /** What was posted of each job first. */
  readonly #posted = new Map<string, unknown>();
  readonly #wrong: string[] = [];
  #read = 0;
  again = 0;

  private constructor(receiver: Receiver) {
    this.#receiver = receiver;
  }

  static async start(): Promise<SoakHooks> {
    return new SoakHooks(await startReceiver());
  }

  get url(): string {
    return this.#receiver.url;
  }

  /** For `QUEUE_WEBHOOK_HOSTS`. */
  get allowed(): string {
    return `private:${new URL(this.url).host}`;
  }

  /** Waits until so many jobs were told of, or a post that the queue's end broke off would have been tried again. */
  async untilTold(jobs: number): Promise<void> {
    for (const from = Date.now(); Date.now() - from < POSTED_WITHIN_MS; await sleep(250)) {
      this.#take();
      if (this.#posted.size >= jobs) return;
    }
  }

  /** What is wrong, now that every job is settled and its post is due no more. */
  problems(views: ReadonlyMap<string, JobView>): string[] {
    this.#take();
    const untold = [...views.keys()]
      .filter((id) => !this.#posted.has(id))
      .map((id) => `${id} was not told of`);
    const other = [...this.#posted].flatMap(([id, post]) => {
      const state = views.get(id)?.state;
      const { type } = post as { type?: string };
      return type === `job.${state}` ? [] : [`${id} is ${state}, and was told of as ${type}`];
    });
    return [...this.#wrong, ...untold, ...other];
  }

  async stop(): Promise<void> {
    await this.#receiver.stop();
  }

  #take(): void {
    for (const { body } of this.#receiver.posts.slice(this.#read)) {
      const { id } = (body.data ?? {}) as { id?: string };
      if (id === undefined) {
        this.#wrong.push(`a post of no job: ${JSON.stringify(body).slice(0, 200)}`);
      } else if (this.#posted.has(id)) {
        this.again += 1;
        if (!isDeepStrictEqual(this.#posted.get(id), body)) this.#wrong.push(`${id} was told of in two ways`);
      } else {
        this.#posted.set(id, body);
      }
    }
    this.#read = this.#receiver.posts.length;
  }
}
