import type { Objects } from '../../../asking/objects.ts';
import type { Log } from '../../../durable/host.ts';

interface Waiting<Link> {
  queueId: string;
  /** The link over which it was asked last. */
  asker: Link;
}

/**
 * The requests that wait for a worker, and whose callers wait at gateway processes. A gateway process asks again for
 * those that its link was broken for; nobody reads the answers of the others.
 */
export class WaitingRequests<Link> {
  readonly #objects: () => Objects;
  readonly #log: Log;
  readonly #waiting = new Map<string, Waiting<Link>>();

  constructor(objects: () => Objects, log: Log) {
    this.#objects = objects;
    this.#log = log;
  }

  /** Remembers a request until it is answered over a link that still holds then. @returns the answer */
  async answer(
    { queueId, jobId, asker }: Waiting<Link> & { jobId: string },
    answer: Promise<unknown>,
    holds: (asker: Link) => boolean,
  ): Promise<unknown> {
    const waiting = { queueId, asker };
    this.#waiting.set(jobId, waiting);
    return await answer.finally(() => {
      if (this.#waiting.get(jobId) === waiting && holds(asker)) this.#waiting.delete(jobId);
    });
  }

  /** Cancels the requests of a link that broke which no later link has asked again. */
  cancelOf(broken: Link): void {
    for (const [jobId, { queueId, asker }] of this.#waiting) {
      if (asker !== broken) continue;
      this.#waiting.delete(jobId);
      const cancelled = this.#objects().queue(queueId).cancel(jobId, 'caller_gone', null);
      cancelled.catch((error: unknown) =>
        this.#log('warn', 'a request whose gateway process is gone could not be cancelled', {
          queue_id: queueId,
          job_id: jobId,
          error: String(error),
        }),
      );
    }
  }
}
