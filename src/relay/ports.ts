import type { Cut } from '../moving/cut.ts';
import type { BrokenReason } from '../protocol/index.ts';

/** The worker's answer socket. Sends never throw. */
export interface AnswerSocket {
  send(message: Uint8Array<ArrayBuffer>): void;
  close(code: number, reason: string): void;
}

export interface RelaySettings {
  reconnect_grace_seconds: number;
}

/** What makes the rest of an answer come from elsewhere. */
export interface Mover {
  /**
   * An answer that its caller has begun to read broke off.
   * @param asked as `Relay.open` was told
   * @returns whether it goes on: then `goOn` and `movedTo` follow
   */
  move(id: number, cut: Cut, reason: BrokenReason, asked: unknown): boolean;
  /** Such an answer could not be moved. @param why null: it is not known */
  stays(why: string | null, reason: BrokenReason, asked: unknown): void;
}
