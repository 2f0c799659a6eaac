import type { QueueFrame } from '../../protocol/index.ts';

/** What is left of a connection when it ends. */
export interface SocketClose {
  /** WebSocket close code; 1006 when the connection just broke, or never came to be. */
  code: number;
  reason: string;
  /** Set when the peer answered the upgrade with an HTTP status instead. */
  httpStatus?: number;
}

export interface SocketEvents {
  opened(): void;
  text(text: string): void;
  binary(data: Uint8Array): void;
  /** From a queue in this process: its frames need no parsing. */
  frame(frame: QueueFrame): void;
  /** Answer to a WebSocket-level ping. */
  pong(): void;
  /** Exactly once, also when the dial failed. Nothing follows it. */
  closed(close: SocketClose): void;
}

export interface Socket {
  send(data: string | Uint8Array): void;
  /** WebSocket-level ping. */
  ping(): void;
  /** Sends what is buffered and a close frame. */
  close(code: number, reason: string): void;
  /** Gives the connection up without a word. */
  destroy(): void;
}

export interface DialTarget {
  url: string;
  /** Sent as `Authorization: Bearer`. */
  token: string | undefined;
}

export type Dial = (target: DialTarget, events: SocketEvents) => Socket;
