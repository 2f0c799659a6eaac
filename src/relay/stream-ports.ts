import type { Cut } from '../moving/continuation.ts';
import type { AnswerHead, BrokenReason } from '../protocol/index.ts';
import type { Reply } from './replies.ts';

/** The sink of a stream's bytes: the caller's response. */
export interface CallerSink {
  /** Returns false when the caller reads slower than the engine writes. */
  write(data: Uint8Array): boolean;
  /** Writes a comment between two events; the write fails if the caller is gone. */
  keepAlive(): void;
  end(): void;
  /**
   * Ends the response so that the caller sees it is not whole.
   * @param mayAddEvent whether the answer is an event stream without a cut event
   */
  abort(reason: BrokenReason, mayAddEvent: boolean): void;
}

/** The opening of a stream for its caller: a head, or the reason why there is none. */
export type Opening = { ok: true; head: AnswerHead } | { ok: false; reason: BrokenReason };

/** The reason for a caller that asks for a cancelled stream, and is not the one that left. */
export const CANCELLED: BrokenReason = {
  message: 'the request was cancelled',
  code: 'cancelled',
  retryable: false,
};

/** The ports that the streams of a relay share. */
export interface StreamPorts {
  reply(record: Reply): void;
  /** Sends a reply that the worker need not get at once. */
  replyLater(record: Reply): void;
  /** Notes that the caller was given the bytes as they came, not a copy. */
  passedOn(): void;
  /** Returns whether the relay holds too many bytes that no caller has asked for. */
  isCrowded(): boolean;
  /** Returns whether the relay stores as many ids of answers as it may. */
  hasIdsEnough(): boolean;
  /** Moves an answer that broke off after its caller began to read. @returns whether another attempt goes on with it */
  move(id: number, cut: Cut, reason: BrokenReason): boolean;
  /** Notes that an answer that broke off could not be moved. @param why null: unknown */
  stays(id: number, why: string | null, reason: BrokenReason): void;
}
