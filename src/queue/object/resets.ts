import type { Queue } from '../queue.ts';
import type { CallName } from './commits.ts';
import { log } from './log.ts';
import type { Relays } from './relays.ts';

/** How long peers get to answer a close, and callers to hear an error, before connections are dropped, ms. */
const LAST_WORDS_MS = 50;

const AFTER_ERROR = 'the queue starts again after an error';

/**
 * A call for which an object was reset is refused for so long, ms: its caller hears why, and a program that repeats it
 * each second does not reset the object each second.
 */
const REFUSED_MS = 30_000;
/** Such calls that are remembered. */
const MOST_FAILURES = 100;

/** The failures by object and call, oldest first: the memory of an isolate outlives its objects. */
const failures = new Map<string, { message: string; at: number }>();

/** How a queue object ends itself: it loses memory and connections and keeps its tables. */
export class Resets {
  readonly #ctx: DurableObjectState;
  readonly #relays: Relays | null;
  #hasBegun = false;

  /** @param relays whose answers end with the object */
  constructor(ctx: DurableObjectState, relays: Relays | null) {
    this.#ctx = ctx;
    this.#relays = relays;
  }

  /**
   * The process ends. The runtime keeps the connection of a hibernatable socket after its close handshake, and a
   * process with open connections does not end: an object that aborts drops them.
   */
  withProcess(): void {
    this.#soon('queue restarting');
  }

  /**
   * Only a reset makes memory, disk and workers agree again: workers redial and list what they hold. It is immediate, so
   * nothing written since the last commit is committed. Callers are not told why, and ask again.
   * @param call that was the error; null: no caller is told
   */
  afterError(error: unknown, call: CallName | null): void {
    logError(error);
    const { message = String(error) } = error as Partial<Error>;
    if (call) {
      const key = this.#keyOf(call);
      failures.delete(key);
      failures.set(key, { message, at: Date.now() });
      for (const oldest of failures.keys()) if (failures.size > MOST_FAILURES) failures.delete(oldest);
    }
    this.#ctx.abort(AFTER_ERROR);
  }

  /** The error for which this very call had the object reset a moment ago; null: it did not. */
  failureOf(call: CallName): Error | null {
    const failure = failures.size > 0 ? failures.get(this.#keyOf(call)) : undefined;
    if (failure === undefined || Date.now() - failure.at > REFUSED_MS) return null;
    return new Error(failure.message);
  }

  #keyOf(call: CallName): string {
    return `${this.#ctx.id} ${call}`;
  }

  /** The clock was set back. It uses no timer: timers stand still as well. */
  async forNewClock(clock: Queue['clock'], roundTrip: () => Promise<void>): Promise<void> {
    if (this.#hasBegun) return;
    this.#hasBegun = true;
    log('warn', 'the clock was set back; the queue starts again to take it');
    this.#relays?.leave();
    this.#ctx.storage.transactionSync(() => clock.leaveWord());
    await this.#ctx.storage.sync();
    await roundTrip();
    this.#ctx.abort('the queue starts again with a new clock');
  }

  #soon(reason: string): void {
    this.#relays?.leave();
    setTimeout(() => this.#ctx.abort(reason), LAST_WORDS_MS);
  }
}

function logError(error: unknown): void {
  const message = 'the queue failed where it should not; it starts again from what is stored';
  log('error', message, { error: (error as Partial<Error>).stack ?? String(error) });
}
