import type { Queue } from '../queue.ts';
import type { CallName } from './commits.ts';
import { log } from './log.ts';
import type { Relays } from './relays.ts';

/** How long peers get to answer a close, and callers to hear an error, before connections are dropped, ms. */
const LAST_WORDS_MS = 50;

const AFTER_ERROR = 'the queue starts again after an error';

/** A caller whose call was the error asks again sooner, ms. */
const ASKS_AGAIN_MS = 10_000;

/** Calls for which objects were reset, by the object's id: what an isolate remembers outlives its objects. */
const failures = new Map<string, { call: CallName; message: string; at: number }>();

/** How a queue object ends itself: its memory and connections go, what it stored stays. */
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

  /** Only a reset makes memory, disk and workers agree again: workers dial anew and say what they hold. */
  afterError(error: unknown): void {
    logError(error);
    this.#soon(AFTER_ERROR);
  }

  /**
   * The same now: nothing that was written since the last commit is committed. Nobody hears why, so callers ask again.
   * @param call that was the error; null: nobody is to hear of it
   */
  atOnce(error: unknown, call: CallName | null): void {
    logError(error);
    const { message = String(error) } = error as Partial<Error>;
    if (call) failures.set(this.#ctx.id.toString(), { call, message, at: Date.now() });
    this.#ctx.abort(AFTER_ERROR);
  }

  /** What an object before this one was reset for, if it was this call. Told once. */
  takeFailure(call: CallName): Error | null {
    const failure = failures.size > 0 ? failures.get(this.#ctx.id.toString()) : undefined;
    if (failure === undefined) return null;
    const isOld = Date.now() - failure.at > ASKS_AGAIN_MS;
    if (!isOld && failure.call !== call) return null;
    failures.delete(this.#ctx.id.toString());
    return isOld ? null : new Error(failure.message);
  }

  /** The clock was set back. Without a timer: those stand still as well. */
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
