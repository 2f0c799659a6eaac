import { BROKEN_HEADER } from '../../src/asking/attempt-loop.ts';
import type { AskedFor } from '../../src/asking/objects.ts';
import { Moving, type MovingPorts } from '../../src/moving/mover.ts';
import { type AnswerHead, type BrokenReason, PING_TEXT, PONG_TEXT } from '../../src/protocol/index.ts';
import type { AnswerSocket } from '../../src/relay/ports.ts';
import { Relay } from '../../src/relay/relay.ts';
import type { CallerSink } from '../../src/relay/stream-ports.ts';
import type { Link } from './network.ts';
import type { ProcessTimeline } from './process-timeline.ts';

const TICK_MS = 1000;
/** What is held for a caller before the worker is paused, bytes: small, so that it happens. */
const CALLER_BUFFER_BYTES = 4000;

/** The body of a caller's response on its way out of the process. */
export class CallerBody implements CallerSink {
  readonly head: AnswerHead;
  readonly #reader: { reads(): void; gone(): void };
  #buffered: Uint8Array[] = [];
  #bytes = 0;
  state: 'open' | 'ended' | 'aborted' = 'open';
  reason: BrokenReason | null = null;
  #changed = () => {};

  constructor(head: AnswerHead, reader: { reads(): void; gone(): void }) {
    this.head = head;
    this.#reader = reader;
  }

  /** Its caller hung up, which the runtime notices at the next write. */
  cancel(): void {
    if (this.state === 'open') this.#reader.gone();
  }

  get isEmpty(): boolean {
    return this.#buffered.length === 0;
  }

  write(data: Uint8Array): boolean {
    if (this.state !== 'open') return false;
    this.#buffered.push(data.slice());
    this.#bytes += data.byteLength;
    this.#changed();
    return this.#bytes < CALLER_BUFFER_BYTES;
  }

  keepAlive(): void {}

  end(): void {
    if (this.state === 'open') this.state = 'ended';
    this.#changed();
  }

  abort(reason: BrokenReason): void {
    if (this.state !== 'open') return;
    this.state = 'aborted';
    this.reason = reason;
    this.#changed();
  }

  /** As another relay reads it, which passes it on. */
  stream(): ReadableStream<Uint8Array> {
    const pull = async (controller: ReadableStreamDefaultController<Uint8Array>) => {
      while (this.isEmpty && this.state === 'open') {
        await new Promise<void>((resolve) => {
          this.#changed = resolve;
        });
      }
      const pieces = this.read(1);
      for (const piece of pieces) controller.enqueue(piece);
      if (pieces.length > 0) return;
      if (this.state === 'ended') controller.close();
      else controller.error(new Error(this.reason?.message));
    };
    return new ReadableStream<Uint8Array>({ pull, cancel: () => this.cancel() }, { highWaterMark: 0 });
  }

  /** At most so many bytes, whole writes at a time. */
  read(most: number): Uint8Array[] {
    const taken: Uint8Array[] = [];
    let bytes = 0;
    while (bytes < most && this.#buffered.length > 0) {
      const piece = this.#buffered.shift()!;
      bytes += piece.byteLength;
      taken.push(piece);
    }
    this.#bytes -= bytes;
    if (this.#bytes < CALLER_BUFFER_BYTES) this.#reader.reads();
    return taken;
  }
}

/** What a response carries to its caller. */
const bodies = new WeakMap<Response, CallerBody>();

export function bodyOf(response: Response): CallerBody | null {
  return bodies.get(response) ?? null;
}

/** The response as one whose body can be read in the usual way. */
export function readable(response: Response): Response {
  const body = bodyOf(response);
  return body === null ? response : new Response(body.stream(), { status: response.status });
}

/** One relay as its runtime runs it, in an object of its own or the queue's; nothing of it is stored. */
export class RelayHost {
  readonly #timeline: ProcessTimeline;
  readonly #relay: Relay;
  readonly #links = new Set<Link>();
  #ticking = false;
  #isAlive = true;
  readonly #bodies = new Set<CallerBody>();
  readonly #opening = new Set<(error: Error) => void>();
  readonly #moving: Moving;
  /** Whose rest may be on its way from elsewhere. */
  readonly #ids = new Set<number>();

  constructor(
    timeline: ProcessTimeline,
    graceSeconds: number,
    ports: Pick<MovingPorts, 'elsewhere' | 'stayed'>,
  ) {
    this.#timeline = timeline;
    this.#moving = new Moving({
      ...ports,
      goOn: (id, events) => this.#isAlive && this.#relay.goOn(id, events),
      movedTo: (id, reason) => {
        if (this.#isAlive) this.#relay.movedTo(id, reason);
      },
      now: () => timeline.now,
    });
    this.#relay = new Relay(() => timeline.now, { reconnect_grace_seconds: graceSeconds }, this.#moving);
  }

  get isBusy(): boolean {
    return this.#relay.isBusy;
  }

  get isConnected(): boolean {
    return this.#links.size > 0;
  }

  accept(link: Link): void {
    this.#links.add(link);
    const socket: AnswerSocket = {
      send: (message) => link.sendDown(message),
      close: (code, reason) => link.closeDown(code, reason),
    };
    link.accepted({
      text: (text) => {
        if (!this.#isAlive || text !== PING_TEXT) return;
        this.#relay.onPing();
        link.sendDown(PONG_TEXT);
      },
      binary: (data) => {
        if (!this.#isAlive) return;
        const message = new Uint8Array(data);
        // As the host frees it.
        if (!this.#relay.onMessage(socket, message.buffer)) message.fill(0);
        this.#arm();
      },
      closed: () => {
        this.#links.delete(link);
        if (this.#isAlive) this.#relay.onSocketClosed(socket);
      },
    });
    this.#relay.onSocket(socket);
    this.#arm();
  }

  /** As the gateway or the queue asks for it; `bodyOf` its response is what the caller reads. */
  open(id: number, asked: AskedFor): Promise<Response> {
    this.#ids.add(id);
    const kept = { asked, openedAt: this.#timeline.now, answeredAt: null as number | null };
    return new Promise((resolve, reject) => {
      this.#opening.add(reject);
      this.#relay.open(
        id,
        (opening) => {
          this.#opening.delete(reject);
          if (!opening.ok) {
            const headers = { [BROKEN_HEADER]: JSON.stringify(opening.reason) };
            resolve(new Response(null, { status: 502, headers }));
            return;
          }
          kept.answeredAt = this.#timeline.now;
          const body = new CallerBody(opening.head, {
            reads: () => {
              if (!this.#isAlive) return;
              this.#relay.callerReads(id);
              this.#moving.callerReads(id);
            },
            gone: () => {
              if (!this.#isAlive) return;
              this.#relay.callerGone(id);
              this.#moving.callerGone(id);
            },
          });
          this.#bodies.add(body);
          this.#relay.attach(id, body);
          const response = new Response(null, { status: opening.head.status });
          bodies.set(response, body);
          resolve(response);
        },
        kept,
      );
      this.#arm();
    });
  }

  /** The answer of a stored job for one of its readers. The response names its body in `x-body`. */
  openReplay(id: number, signal: AbortSignal, opened: (body: CallerBody) => string): Promise<Response> {
    return new Promise((resolve, reject) => {
      this.#opening.add(reject);
      const stop = this.#relay.openReplay(id, (opening) => {
        this.#opening.delete(reject);
        if (!opening.ok) {
          const headers = { [BROKEN_HEADER]: JSON.stringify(opening.reason) };
          resolve(new Response(null, { status: 502, headers }));
          return;
        }
        const gone = () => {
          if (this.#isAlive) this.#relay.replays.leave(id, body);
        };
        const reads = () => this.#isAlive && this.#relay.replays.readerReads(id, body);
        const body: CallerBody = new CallerBody(opening.head, { reads, gone });
        this.#bodies.add(body);
        signal.addEventListener('abort', gone);
        this.#relay.replays.attach(id, body);
        if (signal.aborted) gone();
        resolve(new Response(null, { headers: { 'x-body': opened(body) } }));
      });
      const leave = () => {
        if (this.#isAlive) stop();
      };
      if (signal.aborted) leave();
      else signal.addEventListener('abort', leave);
      this.#arm();
    });
  }

  /** Its caller dropped the call. */
  drop(id: number): void {
    this.#relay.callerGone(id);
    this.#moving.callerGone(id);
  }

  breakStream(id: number, reason: BrokenReason): void {
    this.#relay.breakStream(id, reason);
    this.#arm();
  }

  closeSockets(): void {
    for (const link of this.#links) link.closeDown(1012, 'queue restarting');
  }

  /** Everything it held is gone; its callers see their responses break. */
  end(isPowerLoss: boolean): void {
    this.#isAlive = false;
    for (const link of this.#links) link.serverDied(isPowerLoss);
    const reason = { message: 'the relay is gone', code: 'relay_gone', retryable: false };
    for (const body of this.#bodies) body.abort(reason);
    for (const reject of this.#opening) reject(new Error('the relay is gone'));
    // What it asks of others is dropped with it.
    for (const id of this.#ids) this.#moving.callerGone(id);
  }

  #arm(): void {
    if (this.#ticking || !this.#relay.isBusy) return;
    this.#ticking = true;
    this.#timeline.after(TICK_MS, () => {
      this.#ticking = false;
      if (!this.#isAlive) return;
      this.#relay.onTick();
      this.#arm();
    });
  }
}
