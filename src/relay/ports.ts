import type { Cut } from '../moving/continuation.ts';
import type { BrokenReason } from '../protocol/index.ts';

/** The worker's answer socket. Sends never throw. */
export interface AnswerSocket {
  send(message: Uint8Array<ArrayBuffer>): void;
  close(code: number, reason: string): void;
}

export interface RelaySettings {
  reconnect_grace_seconds: number;
}

/** The mover, which has another attempt make the rest of an answer. */
export interface Mover {
  /**
   * Moves an answer that broke off after its caller began to read.
   * @param asked the argument of `Relay.open`
   * @returns whether the answer goes on: then `goOn` and `movedTo` follow
   */
  move(id: number, cut: Cut, reason: BrokenReason, asked: unknown): boolean;
  /** Notes that an answer that broke off could not be moved. @param why null: unknown */
  stays(why: string | null, reason: BrokenReason, asked: unknown): void;
}
