import type { Queue } from '../queue.ts';
import { log } from './log.ts';
import type { Relays } from './relays.ts';

/** How long peers get to answer a close, and callers to hear an error, before connections are dropped, ms. */
const LAST_WORDS_MS = 50;

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
    const message = 'the queue failed where it should not; it starts again from what is stored';
    log('error', message, { error: (error as Partial<Error>).stack ?? String(error) });
    this.#soon('the queue starts again after an error');
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
