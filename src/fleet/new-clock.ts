import { machineTime, standsStill } from '../durable/machine-time.ts';
import { startAgain } from '../durable/start-again.ts';

type Ending = Parameters<typeof startAgain>[0] & {
  queueId: string;
  /** Stores what is only in memory. */
  save(): void;
};

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

  /** To be asked at every call, since the object's own alarm does not come while its clock stands still. */
  watch(): void {
    const { sql, queueId: queue_id } = this.#ending;
    if (this.#isEnding || !standsStill(Date.now(), machineTime(sql))) return;
    this.#isEnding = true;
    const msg = 'the clock was set back; the fleet object starts again to take it';
    console.log(JSON.stringify({ level: 'warn', msg, queue_id }));
    void this.#end();
  }

  async #end(): Promise<void> {
    this.#ending.save();
    await startAgain(this.#ending, 'the fleet object starts again with a new clock');
  }
}
