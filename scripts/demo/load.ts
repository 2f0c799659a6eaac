import { setTimeout as sleep } from 'node:timers/promises';
import { JobConnection, type NewJob } from '../../src/client/index.ts';
import type { DemoPool } from './cast.ts';
import type { DemoQueue } from './worker.ts';

/** People ask for less than programs, so their first tokens come more often. */
const SHORTER = 3;

/** Keeps jobs and callers on a queue until it is stopped. */
export class DemoLoad {
  readonly #queue: DemoQueue;
  readonly #connections: JobConnection[] = [];
  readonly #stopped = new AbortController();

  constructor(queue: DemoQueue) {
    this.#queue = queue;
  }

  start(pool: DemoPool): void {
    const { stored, callers } = pool.load;
    if (stored > 0) void this.#keepStored(pool, stored).catch(() => {});
    for (let n = 0; n < callers; n++) void this.#call(pool);
  }

  stop(): void {
    this.#stopped.abort();
    for (const connection of this.#connections) connection.close();
  }

  async #keepStored(pool: DemoPool, inFlight: number): Promise<void> {
    const jobs = new JobConnection({ ...this.#queue, inFlight });
    this.#connections.push(jobs);
    for await (const _end of jobs.results(jobsOf(pool))) if (this.#stopped.signal.aborted) return;
  }

  /** One caller: a request after the other, each streamed to its end. */
  async #call({ model, load }: DemoPool): Promise<void> {
    const { signal } = this.#stopped;
    const isChat = load.maxTokens > 0;
    const body = isChat
      ? { model, messages: messages(), max_tokens: Math.round(load.maxTokens / SHORTER), stream: true }
      : { model, input: 'What is a lease?' };
    const { url, token } = this.#queue;
    const headers = {
      'content-type': 'application/json',
      ...(token && { authorization: `Bearer ${token}` }),
    };
    while (!signal.aborted) {
      try {
        const response = await fetch(`${url}/v1/${isChat ? 'chat/completions' : 'embeddings'}`, {
          method: 'POST',
          headers,
          body: JSON.stringify(body),
          signal,
        });
        await response.arrayBuffer();
      } catch {
        // The queue is away, or this ends.
      }
      await sleep(300 + Math.random() * 700, undefined, { signal }).catch(() => {});
    }
  }
}

function* jobsOf({ id, load }: DemoPool): Generator<NewJob> {
  for (;;) {
    yield {
      job_type: 'chat_completion',
      config_id: id,
      payload: { messages: messages(), max_tokens: load.maxTokens },
      priority: Math.random() < 0.25 ? 5 : 0,
      ...(Math.random() < 0.02 ? { deadline_seconds: 1 } : {}),
    };
  }
}

function messages(): { role: string; content: string }[] {
  return [{ role: 'user', content: 'Write two paragraphs about a queue that never loses a job.' }];
}
