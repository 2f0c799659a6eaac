import { bounds } from '../protocol/index.ts';

/**
 * Decides when a relay reports how much of a stream it has taken: seldom at once, since a message costs as much as a
 * piece of an answer, and often together with other reports, since what a worker keeps for seconds costs it full
 * collections of its heap.
 */
export class TakenReports {
  #reported = 0;
  #reportedAtOnce = 0;

  /** Returns when a report is to be sent that says that everything before this offset was taken; null: none is due. */
  due(received: number): 'at once' | 'with others' | null {
    if (received - this.#reported < bounds.TAKEN_EVERY_BYTES) return null;
    this.#reported = received;
    if (received - this.#reportedAtOnce < bounds.TAKEN_AT_ONCE_BYTES) return 'with others';
    this.#reportedAtOnce = received;
    return 'at once';
  }
}
