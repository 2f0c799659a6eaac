import { CLOSE, encodeRecords, limits } from '../protocol/index.ts';
import type { AnswerSocket } from './ports.ts';
import type { Reply } from './replies.ts';

/** Ends of answers that the relay reports to its worker together. */
const MOST_WAITING_REPLIES = 32;

/** The relay's end of its worker's answer socket: which one counts, when it was heard, and the replies to be sent. */
export class AnswerLink {
  readonly #now: () => number;
  #socket: AnswerSocket | null = null;
  /** Epoch ms since when there is no socket, or nothing was heard on it. */
  #heardAt: number;
  #replies: Reply[] = [];
  /** All waiting replies can wait for more. */
  #canWait = true;

  constructor(now: () => number) {
    this.#now = now;
    this.#heardAt = now();
  }

  /** The newer socket counts, and what the older one was to be told is out of date. @param replies what it is told first */
  connected(socket: AnswerSocket, replies: Reply[]): void {
    this.#socket?.close(CLOSE.superseded, 'a newer answer socket of this worker took over');
    this.#socket = socket;
    this.#heardAt = this.#now();
    this.#replies = replies;
    this.flush();
  }

  closed(socket: AnswerSocket): void {
    if (this.#socket !== socket) return;
    this.#socket = null;
    this.#heardAt = this.#now();
  }

  /** Whether it is the socket that counts. */
  is(socket: AnswerSocket): boolean {
    return this.#socket === socket;
  }

  /** Any sign of life. */
  heard(): void {
    this.#heardAt = this.#now();
  }

  /** Closes a socket on which nothing is heard. @returns whether the worker is lost: silent for so long, without one */
  onTick(graceMs: number): boolean {
    const now = this.#now();
    const silentFor = now - this.#heardAt;
    if (this.#socket && silentFor > 2 * limits.PING_SECONDS * 1000) {
      this.#socket.close(1001, 'nothing heard for two ping periods');
      this.#socket = null;
      this.#heardAt = now;
    }
    return this.#socket === null && silentFor >= graceMs;
  }

  reply(record: Reply): void {
    this.#replies.push(record);
    this.#canWait = false;
  }

  /** One that can wait for others. */
  replyLater(record: Reply): void {
    this.#replies.push(record);
  }

  /**
   * The replies of one event go in one message. A message costs as much as a chunk of an answer, so replies that can
   * wait do so until there are several, or a tick comes.
   */
  flushIfDue(): void {
    if (!this.#canWait || this.#replies.length >= MOST_WAITING_REPLIES) this.flush();
  }

  /** Sends all replies. */
  flush(): void {
    if (this.#replies.length === 0) return;
    const replies = this.#replies;
    this.#replies = [];
    this.#canWait = true;
    this.#socket?.send(encodeRecords(replies));
  }
}
