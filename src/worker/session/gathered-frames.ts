import { limits, messagesOf } from '../../protocol/index.ts';
import type { Clock } from '../clock.ts';

/** What is said within one tick, for a queue that takes several frames in a message. */
export class GatheredFrames {
  readonly #clock: Pick<Clock, 'setImmediate'>;
  readonly #send: (message: string) => void;
  #frames: string[] = [];
  /** All of them may go another way. */
  #mayGoWithAnswers = true;

  constructor(clock: Pick<Clock, 'setImmediate'>, send: (message: string) => void) {
    this.#clock = clock;
    this.#send = send;
  }

  /** @param frame as JSON @param mayGoWithAnswer it may leave on the answer socket instead, by `take` */
  add(frame: string, mayGoWithAnswer: boolean): void {
    this.#frames.push(frame);
    this.#mayGoWithAnswers &&= mayGoWithAnswer;
    if (this.#frames.length === 1) this.#clock.setImmediate(() => this.send());
  }

  /** Does not wait for the tick to end. */
  send(): void {
    const frames = this.#frames;
    this.forget();
    for (const message of messagesOf(frames)) this.#send(message);
  }

  /** What would be said here, to say it with answers; null: nothing, or what must be said here all the same. */
  take(): string | null {
    if (!this.#mayGoWithAnswers) return null;
    const [message = null, more] = messagesOf(this.#frames);
    if (message === null || more || message.length > limits.ANSWER_SETTLEMENTS_CHARACTERS) return null;
    this.forget();
    return message;
  }

  /** The connection is gone. */
  forget(): void {
    this.#frames = [];
    this.#mayGoWithAnswers = true;
  }
}
