import { decodeRecords, encodeRecords, PING_TEXT, PONG_TEXT } from '../../protocol/index.ts';
import type { Clock } from '../clock.ts';
import type { Socket, SocketEvents } from '../session/socket.ts';
import { InsideConnection } from './inside-connection.ts';

const EVENT = 'data: ';

/** The relay's end of the answer socket: takes the copies that jobs write of what they yield (run/runpod-job.ts). */
export class ReplayBuffers {
  readonly #clock: Pick<Clock, 'setImmediate'>;
  readonly #yielded: (stream: number, output: unknown) => void;
  /** Of events that are not whole yet. */
  readonly #rests = new Map<number, { decoder: InstanceType<typeof TextDecoder>; text: string }>();

  constructor(clock: Pick<Clock, 'setImmediate'>, yielded: (stream: number, output: unknown) => void) {
    this.#clock = clock;
    this.#yielded = yielded;
  }

  connect(worker: SocketEvents): Socket {
    const connection = new InsideConnection(this.#clock, worker, {
      text: (text) => {
        if (text === PING_TEXT) connection.text(PONG_TEXT);
      },
      binary: (data) => this.#receive(data, connection),
      closed: () => this.#rests.clear(),
    });
    return connection.socket;
  }

  #receive(message: Uint8Array, connection: InsideConnection): void {
    for (const record of decodeRecords(message)) {
      const { stream } = record;
      if (record.type === 'bytes') {
        this.#read(stream, record.data);
        const offset = record.offset + record.data.byteLength;
        connection.binary(encodeRecords([{ type: 'taken', stream, offset }]));
      } else if (record.type === 'end') {
        this.#rests.delete(stream);
        connection.binary(encodeRecords([{ type: 'taken', stream, offset: record.size }]));
      } else if (record.type === 'broken') {
        this.#rests.delete(stream);
      }
    }
  }

  #read(stream: number, data: Uint8Array): void {
    const rest = this.#rests.get(stream) ?? { decoder: new TextDecoder(), text: '' };
    const events = (rest.text + rest.decoder.decode(data, { stream: true })).split('\n\n');
    rest.text = events.pop()!;
    this.#rests.set(stream, rest);
    for (const event of events) {
      const { output } = JSON.parse(event.slice(EVENT.length)) as { output: unknown };
      this.#yielded(stream, output);
    }
  }
}
