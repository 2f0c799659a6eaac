import type { Cut } from '../moving/cut.ts';
import type { AnswerHead, BrokenReason } from '../protocol/index.ts';
import type { Reply } from './replies.ts';

/** Where a stream's bytes go: the caller's response, behind whatever carries it. */
export interface CallerSink {
  /** Returns false when the caller reads slower than the engine writes. */
  write(data: Uint8Array): boolean;
  /** Writes a comment between two events, which fails where the caller is gone. */
  keepAlive(): void;
  end(): void;
  /**
   * Ends the response so that the caller sees it is not whole.
   * @param mayAddEvent it is an event stream, and none of its events is cut
   */
  abort(reason: BrokenReason, mayAddEvent: boolean): void;
}

/** How a stream opens for its caller. */
export type Opening = { ok: true; head: AnswerHead } | { ok: false; reason: BrokenReason };

/** The answer to a request for a cancelled stream: its caller is not the one that left. */
export const CANCELLED: BrokenReason = {
  message: 'the request was cancelled',
  code: 'cancelled',
  retryable: false,
};

/** What the streams of a relay share. */
export interface StreamPorts {
  reply(record: Reply): void;
  /** The same for what the worker need not hear at once. */
  replyLater(record: Reply): void;
  /** The caller was given the bytes as they came, not a copy. */
  passedOn(): void;
  /** The relay holds too much that no caller has asked for. */
  isCrowded(): boolean;
  /** The relay keeps as many ids of answers as it may. */
  hasIdsEnough(): boolean;
  /** An answer that its caller has begun to read broke off. @returns whether it goes on from elsewhere */
  move(id: number, cut: Cut, reason: BrokenReason): boolean;
  /** Such an answer could not be moved. @param why null: it is not known */
  stays(id: number, why: string | null, reason: BrokenReason): void;
}
