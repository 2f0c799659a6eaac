import {
  type AnswerRecord,
  decodeRecords,
  encodeRecords,
  PING_TEXT,
  type WorkerFrame,
} from '../../src/protocol/index.ts';
import type { DialTarget, Socket, SocketEvents } from '../../src/worker/session/socket.ts';

/** The queue's or relay's end of one connection of the worker. */
export class FakeConnection {
  readonly target: DialTarget;
  readonly #events: SocketEvents;
  readonly texts: string[] = [];
  readonly records: AnswerRecord[] = [];
  /** Records of each binary message. */
  readonly messages: AnswerRecord[][] = [];
  websocketPings = 0;
  /** The worker's end of the connection. */
  closedBy: { code: number; reason: string } | 'destroyed' | null = null;

  constructor(target: DialTarget, events: SocketEvents) {
    this.target = target;
    this.#events = events;
  }

  readonly socket: Socket = {
    send: (data) => {
      if (typeof data === 'string') this.texts.push(data);
      else {
        const records = decodeRecords(data.slice());
        this.messages.push(records);
        this.records.push(...records);
      }
    },
    ping: () => {
      this.websocketPings += 1;
    },
    close: (code, reason) => {
      this.closedBy = { code, reason };
      queueMicrotask(() => this.#events.closed({ code, reason }));
    },
    destroy: () => {
      this.closedBy = 'destroyed';
    },
  };

  /** Frames of the worker, pings left out. */
  get frames(): WorkerFrame[] {
    return this.texts
      .filter((text) => text !== PING_TEXT)
      .flatMap((text) => JSON.parse(text) as WorkerFrame | WorkerFrame[]);
  }

  framesOf<T extends WorkerFrame['type']>(type: T): Extract<WorkerFrame, { type: T }>[] {
    return this.frames.filter((frame): frame is Extract<WorkerFrame, { type: T }> => frame.type === type);
  }

  get textPings(): number {
    return this.texts.filter((text) => text === PING_TEXT).length;
  }

  /** The bytes of a stream as they stand in the records; throws on a hole. */
  bytesOf(stream: number): string {
    let bytes = Buffer.alloc(0);
    for (const record of this.records) {
      if (record.type !== 'bytes' || record.stream !== stream) continue;
      if (record.offset > bytes.byteLength) throw new Error(`hole at ${bytes.byteLength}`);
      bytes = Buffer.concat([bytes, record.data.subarray(bytes.byteLength - record.offset)]);
    }
    return bytes.toString();
  }

  open(): void {
    this.#events.opened();
  }

  push(frame: object | string): void {
    this.#events.text(typeof frame === 'string' ? frame : JSON.stringify(frame));
  }

  pushRecords(...records: AnswerRecord[]): void {
    this.#events.binary(encodeRecords(records));
  }

  /** A binary message as it stands, whole records or frames or not. */
  pushBytes(message: Uint8Array<ArrayBuffer>): void {
    this.#events.binary(message);
  }

  pong(): void {
    this.#events.pong();
  }

  close(code = 1006, reason = '', httpStatus?: number): void {
    this.#events.closed({ code, reason, ...(httpStatus ? { httpStatus } : {}) });
  }

  /** Answers `register` as an extended queue does. */
  grant(more: object = {}): void {
    this.push({
      type: 'registered',
      protocol: 1,
      session_id: 's',
      answers_url: 'answers?worker_id=w',
      lease_seconds: 30,
      renew_after_seconds: 24,
      ...more,
    });
  }
}
