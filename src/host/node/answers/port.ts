import {
  AnswerFormatError,
  CLOSE,
  encodeRecords,
  PING_TEXT,
  QUEUE_HOME,
  RECORD_TYPE,
  readHeaders,
} from '../../../protocol/index.ts';
import type { RelayClock, WorkerSocket, WorkerSocketEvents } from '../../../relay/object/host.ts';
import { copyOf, onlyHomeOf, partsOf } from './by-home.ts';
import {
  CHANNEL_BYTES,
  channelMessage,
  HomeMessage,
  type PortMessage,
  readChannelMessage,
  readJson,
} from './peer-messages.ts';
import { StreamsOfHome } from './streams-of-home.ts';

const TICK_MS = 1000;
const NO_RECORDS = new Uint8Array(0);

/** The port's end of the link to another home. Its methods never throw. */
export interface HomeSocket {
  send(message: string | Uint8Array<ArrayBuffer>): void;
  close(code: number, reason: string): void;
}

/** The events of a link that the host reports. */
export interface LinkEvents {
  /** @throws Error for a message that cannot be read: the host closes the link */
  message(message: string | Uint8Array): void;
  closed(): void;
}

interface PortSettings {
  /** The number of this process as a home. */
  home: number;
  /** The streams of a home that is away for this many seconds are given up. */
  reconnect_grace_seconds: number;
}

/** An answer socket of this process. */
interface Channel {
  number: number;
  queueId: string;
  workerId: string;
  openedAt: number;
  socket: WorkerSocket;
  /** The relay of this process. */
  relay: WorkerSocketEvents;
  /** The streams by home, but for those of this process. */
  streams: Map<number, StreamsOfHome>;
}

/** A home that has been linked. */
interface Home {
  /** The process that has, or last had, the number. */
  instance: string;
  /** The link; null: the home is away. */
  socket: HomeSocket | null;
  /** The time since which the home is away. */
  awaySince: number;
}

/**
 * The answer sockets that workers have dialled at this process. It hands records to the homes of their streams, and
 * keeps none: the worker has them until the home's relay has taken them.
 *
 * A worker sends nothing twice within one connection. So once a home is linked again, the port makes workers whose
 * records the home may have missed dial again, and each stream goes on from what its relay has. The port cancels the
 * streams of a home that stays away, or that another process has replaced. It does not cancel those of the queue's own
 * process: stored jobs outlive that process, and the next one says itself which streams it still wants.
 */
export class Port {
  readonly #settings: PortSettings;
  readonly #clock: RelayClock;
  readonly #channels = new Map<number, Channel>();
  readonly #homes = new Map<number, Home>();
  #nextChannel = 0;
  #isTicking = false;

  constructor(settings: PortSettings, clock: RelayClock) {
    this.#settings = settings;
    this.#clock = clock;
  }

  /** The number of streams of other homes that workers send through this port, or were to. */
  get streams(): number {
    let count = 0;
    for (const channel of this.#channels.values())
      for (const streams of channel.streams.values()) count += streams.size;
    return count;
  }

  /**
   * Takes an answer socket that a worker has just opened.
   * @param attach hands the socket to the relay of this process
   */
  connected(
    queueId: string,
    workerId: string,
    socket: WorkerSocket,
    attach: (socket: WorkerSocket) => WorkerSocketEvents,
  ): WorkerSocketEvents {
    const number = this.#nextChannel++;
    const close = (code: number, reason: string) => {
      socket.close(code, reason);
      this.#closed(channel);
    };
    const openedAt = this.#clock.now();
    const relay = attach({ send: (message) => socket.send(message), close });
    const channel: Channel = {
      ...{ number, queueId, workerId, openedAt, relay },
      socket: { send: (message) => socket.send(message), close },
      streams: new Map(),
    };
    this.#channels.set(number, channel);
    for (const home of this.#linked()) home.send(this.#opening(channel));
    return {
      message: (message) => this.#message(channel, message),
      closed: () => this.#closed(channel),
    };
  }

  /** Takes the link of another home that has just been opened. @param instance names the process */
  linked(number: number, instance: string, socket: HomeSocket): LinkEvents {
    const before = this.#homes.get(number);
    before?.socket?.close(CLOSE.superseded, 'a newer link of this process took over');
    const isOther = before?.instance !== instance;
    const home: Home = { instance, socket, awaySince: 0 };
    this.#homes.set(number, home);
    for (const channel of [...this.#channels.values()]) {
      const streams = channel.streams.get(number);
      if (isOther && streams && number !== QUEUE_HOME) this.#cancel(channel, streams.takePassed());
      // The end of a stream may have been lost with the link.
      if (streams && (!isOther || streams.size > 0)) channel.socket.close(CLOSE.restarting, 'dial again');
      else socket.send(this.#opening(channel));
    }
    return {
      message: (message) => this.#fromHome(number, message),
      closed: () => {
        if (home.socket === null) return;
        home.socket = null;
        home.awaySince = this.#clock.now();
        this.#arm();
      },
    };
  }

  /** Closes all answer sockets, so that their workers dial another process. */
  closeAll(code: number, reason: string): void {
    for (const { socket } of [...this.#channels.values()]) socket.close(code, reason);
  }

  #message(channel: Channel, message: string | ArrayBuffer | Uint8Array): boolean {
    if (typeof message === 'string') {
      // The relay of this process answers the ping.
      if (message === PING_TEXT)
        for (const home of this.#linked()) home.send(channelMessage(channel.number, NO_RECORDS));
      return channel.relay.message(message);
    }
    const bytes = message instanceof Uint8Array ? message : new Uint8Array(message);
    if (bytes.byteLength === 0 || onlyHomeOf(bytes) === this.#settings.home)
      return channel.relay.message(message);
    try {
      return this.#sort(channel, bytes);
    } catch (error) {
      if (!(error instanceof AnswerFormatError)) throw error;
      // The records after the error cannot be told apart; a new socket starts from known offsets.
      channel.socket.close(1007, error.message);
      return false;
    }
  }

  /** Hands each home its records. @returns whether a relay of this process still reads the message */
  #sort(channel: Channel, message: Uint8Array): boolean {
    const own = this.#settings.home;
    const parts = partsOf(message, (number, stream, isLast) => {
      if (number === own) return;
      const streams = this.#streams(channel, number);
      if (this.#homes.get(number)?.socket) streams.passed(stream, isLast);
      else streams.missed(stream, this.#clock.now());
    });
    for (const part of parts) {
      if (part.home === own) {
        channel.relay.message(copyOf(message, part));
        continue;
      }
      const socket = this.#homes.get(part.home)?.socket;
      if (!socket) {
        this.#arm();
        continue;
      }
      const copy = copyOf(message, part, CHANNEL_BYTES);
      (copy as Buffer).writeUInt32BE(channel.number);
      socket.send(copy);
    }
    return false;
  }

  #fromHome(number: number, message: string | Uint8Array): void {
    if (typeof message === 'string') {
      const { channel, code, reason } = readJson(HomeMessage, message);
      this.#channels.get(channel)?.socket.close(code, reason);
      return;
    }
    const read = readChannelMessage(message);
    if (read === null) throw new Error('a peer sent bytes that name no channel');
    const channel = this.#channels.get(read.channel);
    if (!channel) return;
    const streams = this.#streams(channel, number);
    readHeaders(read.records, (type, stream) => {
      if (type === RECORD_TYPE.cancel) streams.cancelled(stream);
    });
    channel.socket.send(read.records);
  }

  #closed(channel: Channel): void {
    if (!this.#channels.delete(channel.number)) return;
    const closed = JSON.stringify({ type: 'closed', channel: channel.number } satisfies PortMessage);
    for (const home of this.#linked()) home.send(closed);
    channel.relay.closed();
  }

  #opening({ number, queueId, workerId, openedAt }: Channel): string {
    const age_ms = this.#clock.now() - openedAt;
    const opening = {
      type: 'open',
      channel: number,
      queue_id: queueId,
      worker_id: workerId,
      age_ms,
    } as const;
    return JSON.stringify(opening satisfies PortMessage);
  }

  *#linked(): Generator<HomeSocket> {
    for (const { socket } of this.#homes.values()) if (socket) yield socket;
  }

  #streams({ streams }: Channel, home: number): StreamsOfHome {
    const known = streams.get(home);
    if (known) return known;
    const made = new StreamsOfHome();
    streams.set(home, made);
    return made;
  }

  #cancel({ socket }: Channel, streams: number[]): void {
    if (streams.length === 0) return;
    socket.send(
      encodeRecords(streams.map((stream) => ({ type: 'cancel', stream, reason: 'caller_gone' }) as const)),
    );
  }

  /** Gives up the streams of homes that have been away for the grace. @returns whether there are more */
  #tick(): boolean {
    const before = this.#clock.now() - this.#settings.reconnect_grace_seconds * 1000;
    let hasMore = false;
    for (const channel of this.#channels.values()) {
      for (const [number, streams] of channel.streams) {
        const home = this.#homes.get(number);
        if (home?.socket || number === QUEUE_HOME) continue;
        const isGone = home === undefined || home.awaySince <= before;
        if (isGone) this.#cancel(channel, streams.takePassed());
        this.#cancel(channel, streams.takeMissed(before));
        if (isGone && streams.size === 0) channel.streams.delete(number);
        else hasMore = true;
      }
    }
    return hasMore;
  }

  #arm(): void {
    if (this.#isTicking) return;
    this.#isTicking = true;
    this.#clock.after(TICK_MS, () => {
      this.#isTicking = false;
      if (this.#tick()) this.#arm();
    });
  }
}
