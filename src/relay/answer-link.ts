import { bounds, CLOSE, encodeRecords } from '../protocol/index.ts';
import type { AnswerSocket } from './ports.ts';
import type { Reply } from './replies.ts';

/** The most replies that wait for others, so that they go to the worker together. */
const MOST_WAITING_REPLIES = 32;

/** The relay's link to its worker: the current answer socket, its last sign of life, and the replies to be sent. */
export class AnswerLink {
  readonly #now: () => number;
  #socket: AnswerSocket | null = null;
  /** The time since which there is no socket, or it has been silent, epoch ms. */
  #heardAt: number;
  #replies: Reply[] = [];
  /** Whether all waiting replies can wait for more. */
  #canWait = true;

  constructor(now: () => number) {
    this.#now = now;
    this.#heardAt = now();
  }

  /** Takes a newer socket, and drops the replies for the older one. @param replies are sent first on the newer one */
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

  /** Returns whether this is the current socket. */
  is(socket: AnswerSocket): boolean {
    return this.#socket === socket;
  }

  /** Notes a sign of life. */
  heard(): void {
    this.#heardAt = this.#now();
  }

  /** Closes a silent socket. @returns whether the worker is lost: without a socket for the whole grace time */
  onTick(graceMs: number): boolean {
    const now = this.#now();
    const silentFor = now - this.#heardAt;
    if (this.#socket && silentFor > 2 * bounds.PING_SECONDS * 1000) {
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

  /** Adds a reply that can wait for others. */
  replyLater(record: Reply): void {
    this.#replies.push(record);
  }

  /**
   * Sends the replies of one event in one message. A message costs as much as a chunk of an answer, so replies that can
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
