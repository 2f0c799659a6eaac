import { type AnswerRecord, decodeRecords, encodeRecords } from '../../src/protocol/index.ts';
import { KeepAlive } from '../../src/relay/keep-alive.ts';
import type { AnswerSocket } from '../../src/relay/ports.ts';
import { Relay } from '../../src/relay/relay.ts';
import type { CallerSink, Opening } from '../../src/relay/stream-ports.ts';

/** The head of an event stream. */
export const sse = { status: 200, headers: { 'content-type': 'text/event-stream; charset=utf-8' } };
export const text = (value: string) => new TextEncoder().encode(value);

export class Caller implements CallerSink {
  received = '';
  ended = false;
  broken: string | null = null;
  /** An event of the relay's own may follow. */
  mayAddEvent: boolean | null = null;
  keepsUp = true;
  readonly #keepAlive = new KeepAlive();
  write(data: Uint8Array): boolean {
    this.received += new TextDecoder().decode(this.#keepAlive.next(data));
    return this.keepsUp;
  }
  keepAlive(): void {
    this.received += new TextDecoder().decode(this.#keepAlive.comment());
  }
  end(): void {
    this.ended = true;
  }
  abort(reason: { message: string }, mayAddEvent: boolean): void {
    this.broken = reason.message;
    this.mayAddEvent = mayAddEvent;
  }
}

/** A relay with one worker's socket, a clock and callers that the test plays. */
export class RelayHarness {
  nowMs = 1_000_000;
  readonly relay: Relay;
  sent: AnswerRecord[] = [];
  /** The code and reason of the relay's last close of a socket. */
  closed: { code: number; reason: string } | null = null;
  socket: AnswerSocket;

  constructor() {
    this.relay = new Relay(() => this.nowMs, { reconnect_grace_seconds: 10 });
    this.socket = this.connect();
  }

  connect(): AnswerSocket {
    const socket: AnswerSocket = {
      send: (message) => this.sent.push(...decodeRecords(message)),
      close: (code, reason) => {
        this.closed = { code, reason };
      },
    };
    this.socket = socket;
    this.relay.onSocket(socket);
    return socket;
  }
  say(...records: AnswerRecord[]): void {
    // A message has memory of its own, as the host gives it.
    const message = new Uint8Array(encodeRecords(records));
    // The host frees such a message in the same way.
    if (!this.relay.onMessage(this.socket, message.buffer)) message.fill(0);
  }
  /** Opens a stream the way the object does: the caller is attached as soon as the answer opens. */
  open(stream: number): { caller: Caller; openings: Opening[] } {
    const caller = new Caller();
    const openings: Opening[] = [];
    this.relay.open(stream, (opening) => {
      openings.push(opening);
      if (opening.ok) this.relay.attach(stream, caller);
    });
    return { caller, openings };
  }
  advance(seconds: number): void {
    for (let second = 0; second < seconds; second++) {
      this.nowMs += 1000;
      this.relay.onTick();
    }
  }
}
