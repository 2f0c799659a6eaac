import type { ObjectHost } from '../../durable/host.ts';
import type { CallName } from './commits.ts';

const AFTER_ERROR = 'the queue starts again after an error';

/**
 * A call for which an object was reset is refused for this many ms: its caller hears why, and a program that repeats it
 * each second does not reset the object each second.
 */
const REFUSED_MS = 30_000;
/** The most failed calls that are remembered. */
const MOST_FAILURES = 100;

/** Failures by queue id and call, oldest first. They are global, since the memory of a process outlives its objects. */
const failures = new Map<string, { message: string; at: number }>();

/** Ends a queue object whose work threw: the object loses memory and connections and keeps its tables. */
export class Resets {
  readonly #host: Pick<ObjectHost, 'queueId' | 'now' | 'restart' | 'log'>;

  constructor(host: Pick<ObjectHost, 'queueId' | 'now' | 'restart' | 'log'>) {
    this.#host = host;
  }

  /**
   * Resets the object, which alone makes memory, disk and workers agree again: workers redial and list what they hold.
   * The reset is immediate, so nothing written since the last commit is committed. Callers are not told why, and ask
   * again.
   * @param call the call that threw; null if no caller is told
   */
  afterError(error: unknown, call: CallName | null): void {
    const { message = String(error), stack = String(error) } = error as Partial<Error>;
    const told = 'the queue failed where it should not; it starts again from what is stored';
    this.#host.log('error', told, { error: stack });
    if (call) {
      const key = this.#keyOf(call);
      failures.delete(key);
      failures.set(key, { message, at: this.#host.now() });
      for (const oldest of failures.keys()) if (failures.size > MOST_FAILURES) failures.delete(oldest);
    }
    this.#host.restart(AFTER_ERROR);
  }

  /** Returns the error for which this very call had the object reset a moment ago; null if it did not. */
  failureOf(call: CallName): Error | null {
    const failure = failures.size > 0 ? failures.get(this.#keyOf(call)) : undefined;
    if (failure === undefined || this.#host.now() - failure.at > REFUSED_MS) return null;
    return new Error(failure.message);
  }

  #keyOf(call: CallName): string {
    return `${this.#host.queueId} ${call}`;
  }
}
