import { machineTime, standsStill } from '../durable/machine-time.ts';
import type { Alarm, Sql } from '../durable/ports.ts';

interface Ending {
  ctx: { storage: { sync(): Promise<void> }; abort(reason: string): void };
  sql: Sql;
  alarm: Alarm;
  queueId: string;
  /** Stores what is only in memory. */
  save(): void;
}

/**
 * Ends the object when the clock was set back: in a running one the time does not go back and no timer comes until the
 * clock is there again, so that its scheduler would neither start nor end a machine. The next object has the new time.
 */
export class NewClock {
  readonly #ending: Ending;
  #isEnding = false;

  constructor(ending: Ending) {
    this.#ending = ending;
  }

  /** To be asked at what comes from outside, since the object's own alarm does not come. */
  watch(): void {
    const { sql, queueId: queue_id } = this.#ending;
    if (this.#isEnding || !standsStill(Date.now(), machineTime(sql))) return;
    this.#isEnding = true;
    const msg = 'the clock was set back; the fleet object starts again to take it';
    console.log(JSON.stringify({ level: 'warn', msg, queue_id }));
    void this.#startAgain();
  }

  /** The alarm starts it, even where nobody calls. */
  async #startAgain(): Promise<void> {
    const { ctx, sql, alarm, save } = this.#ending;
    save();
    alarm.set(machineTime(sql));
    await ctx.storage.sync();
    ctx.abort('the fleet object starts again with a new clock');
  }
}
