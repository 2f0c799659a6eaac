import { messagesOf } from '../../protocol/index.ts';
import type { Clock } from '../clock.ts';

/** Gathers the frames of one tick, for a queue that takes several in a message. */
export class GatheredFrames {
  readonly #clock: Pick<Clock, 'setImmediate'>;
  readonly #send: (message: string) => void;
  #frames: string[] = [];

  constructor(clock: Pick<Clock, 'setImmediate'>, send: (message: string) => void) {
    this.#clock = clock;
    this.#send = send;
  }

  /** @param frame as JSON */
  add(frame: string): void {
    this.#frames.push(frame);
    if (this.#frames.length === 1) this.#clock.setImmediate(() => this.send());
  }

  /** Sends the gathered frames without waiting for the tick to end. */
  send(): void {
    const frames = this.#frames;
    this.forget();
    for (const message of messagesOf(frames)) this.#send(message);
  }

  /** Forgets the gathered frames, as the connection is gone. */
  forget(): void {
    this.#frames = [];
  }
}
