import { CLOSE, isFatalClose, type QueueFrame } from '../../protocol/index.ts';

/** The end of a connection: its code and reason. */
export interface SocketClose {
  /** The WebSocket close code; 1006 if the connection broke, or was never made. */
  code: number;
  reason: string;
  /** The HTTP status with which the peer answered in place of an upgrade. */
  httpStatus?: number;
  /** The message of the error with which a queue answered in place of an upgrade. */
  explanation?: string;
}

export interface SocketEvents {
  opened(): void;
  text(text: string): void;
  binary(data: Uint8Array): void;
  /** Takes a frame from a queue in this process, which needs no parsing. */
  frame(frame: QueueFrame): void;
  /** Called with the answer to a WebSocket-level ping. */
  pong(): void;
  /** Called exactly once, even if the dial failed. No other event follows. */
  closed(close: SocketClose): void;
}

export interface Socket {
  send(data: string | Uint8Array): void;
  /** Sends a WebSocket-level ping. */
  ping(): void;
  /** Sends what is buffered and a close frame. */
  close(code: number, reason: string): void;
  /** Gives up the connection without a close frame. */
  destroy(): void;
}

export interface DialTarget {
  url: string;
  /** The token, which is sent as `Authorization: Bearer`. */
  token: string | undefined;
}

export type Dial = (target: DialTarget, events: SocketEvents) => Socket;

export interface Denied {
  wsUrl: string;
  workerId: string;
  token: string | undefined;
}

/** Returns what to tell people when the queue denies this worker for good; null: dialling again makes sense. */
export function denialOf(close: SocketClose, { wsUrl, workerId, token }: Denied): string | null {
  if (close.code === CLOSE.superseded) {
    return `another worker registered with the id "${workerId}"; give each worker its own CASOLA_INSTANCE_ID`;
  }
  // The message shows the address without user name and password.
  const address = wsUrl.replace(/\/\/[^/@]*@/, '//');
  const isDenied = close.httpStatus === 401 || close.httpStatus === 403;
  if (!isFatalClose(close.code) && !isDenied) return null;
  const why = isDenied ? close.explanation : close.reason;
  // A queue that asks for a token describes what its callers send; a worker has a variable for it.
  if (why && (token || close.httpStatus === 403)) {
    return `the queue at ${address} denies ${token ? 'the token in CASOLA_API_TOKEN' : 'this worker'}: ${why}`;
  }
  if (close.code === CLOSE.forbidden || close.httpStatus === 403) {
    return `the queue at ${address} denies this token: it lacks the scope "worker"`;
  }
  return token
    ? `the queue at ${address} does not know this token: check CASOLA_API_TOKEN`
    : `the queue at ${address} asks for a token: set CASOLA_API_TOKEN`;
}
