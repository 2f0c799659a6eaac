import type { JobView } from '../protocol/index.ts';
import type { NewJob, QueueError } from './client.ts';

/** The outcome of one of many jobs. */
export type JobEnd =
  | { id: string; job: JobView }
  /** The queue did not take the job, or has forgotten it. */
  | { id: string; error: QueueError };

/**
 * Settles jobs concurrently and returns them in the order in which they end.
 * @param most the most jobs that run or whose ends the program has not read; the source is read only below it
 * @throws QueueError of a job that failed for lack of a connection; any error of the source
 */
export async function* resultsOf(
  settle: (job: NewJob) => Promise<JobEnd>,
  jobs: Iterable<NewJob> | AsyncIterable<NewJob>,
  most: number,
): AsyncGenerator<JobEnd> {
  const ended: JobEnd[] = [];
  let running = 0;
  let source: 'open' | 'read' | { failure: unknown } = 'open';
  let isOver = false;
  const changed = new Change();

  const read = async () => {
    for await (const job of jobs) {
      while (running + ended.length >= most && !isOver) await changed.next();
      if (isOver) return;
      running += 1;
      void settle(job).then((end) => {
        running -= 1;
        ended.push(end);
        changed.tell();
      });
    }
  };
  void read()
    .then(() => {
      source = 'read';
    })
    .catch((failure) => {
      source = { failure };
    })
    .finally(() => changed.tell());

  try {
    while (ended.length > 0 || running > 0 || source === 'open') {
      const end = ended.shift();
      if (end === undefined) {
        await changed.next();
        continue;
      }
      changed.tell();
      if ('error' in end && end.error.status === null) throw end.error;
      yield end;
    }
    const read = source as 'read' | { failure: unknown };
    if (read !== 'read') throw read.failure;
  } finally {
    isOver = true;
    changed.tell();
  }
}

/** Lets several callers wait for the next change. */
class Change {
  #waiting: (() => void)[] = [];

  next(): Promise<void> {
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  tell(): void {
    for (const wake of this.#waiting.splice(0)) wake();
  }
}
