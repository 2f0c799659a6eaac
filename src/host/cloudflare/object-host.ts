import { freeBytes } from '../../durable/free-bytes.ts';
import {
  type HostedObject,
  type HostSocket,
  type Log,
  type ObjectHost,
  quietly,
} from '../../durable/host.ts';
import type { Row, Sql, SqlValue } from '../../durable/ports.ts';
import { ClockWatch, machineTime } from './clock-watch.ts';
import { Gathering } from './gathering.ts';
import { StoredAlarm } from './stored-alarm.ts';

type Hosted = Pick<HostedObject, 'clockSetBack' | 'pings'>;

/** The host that a Durable Object hands to the object that it holds. */
export class DurableObjectHost<Kept> implements ObjectHost<Kept> {
  readonly queueId: string;
  readonly sql: Sql;
  readonly alarm: StoredAlarm;
  readonly log = log;
  readonly #ctx: DurableObjectState;
  readonly #roundTrip: () => Promise<void>;
  readonly #sockets = new WeakMap<WebSocket, HibernatingSocket<Kept>>();
  readonly #clock: ClockWatch;
  readonly #gathering: Gathering;
  #hosted: Hosted = {};
  #isEnding = false;

  /**
   * Makes the host. @param roundTrip calls the object itself; it returns after the events that were waiting when it was
   * called
   */
  static async make<Kept>(
    ctx: DurableObjectState,
    roundTrip: () => Promise<void>,
  ): Promise<DurableObjectHost<Kept>> {
    // The alarm is read first: the rules move it only if it is set for later.
    return new DurableObjectHost<Kept>(ctx, roundTrip, await StoredAlarm.read(ctx.storage));
  }

  private constructor(ctx: DurableObjectState, roundTrip: () => Promise<void>, alarm: StoredAlarm) {
    this.#ctx = ctx;
    this.#roundTrip = roundTrip;
    this.#gathering = new Gathering(roundTrip);
    this.alarm = alarm;
    // Under another queue's id the object would delete the files of this queue's jobs, which the other queue does not
    // know.
    if (ctx.id.name === undefined) throw new Error('the runtime does not tell the id of the queue');
    this.queueId = ctx.id.name;
    this.sql = sqlOf(ctx.storage);
    this.#clock = new ClockWatch(
      () => this.now(),
      () => this.machineTime(),
    );
  }

  now(): number {
    return Date.now();
  }

  machineTime(): number {
    return machineTime(this.sql);
  }

  databaseBytes(): number {
    return this.#ctx.storage.sql.databaseSize;
  }

  transaction<T>(work: () => T): T {
    return this.#ctx.storage.transactionSync(work);
  }

  async gathered(): Promise<void> {
    await this.#gathering.gathered();
    this.#watchClock(true);
  }

  after(ms: number, run: () => void): () => void {
    // While the clock stands still a timer would not fire. The look waits for the object's current work to end.
    queueMicrotask(() => this.#watchClock(true));
    const timer = setTimeout(() => {
      run();
      this.#watchClock(false);
    }, ms);
    return () => clearTimeout(timer);
  }

  background(work: Promise<unknown>): void {
    const logged = work.catch((error: unknown) =>
      log('error', 'work in the background failed', { queue_id: this.queueId, error: String(error) }),
    );
    this.#ctx.waitUntil(logged);
  }

  sockets(): HostSocket<Kept>[] {
    return this.#ctx.getWebSockets().map((socket) => this.socketOf(socket));
  }

  restart(reason: string): void {
    this.#ctx.abort(reason);
  }

  async clear<T>(remake: () => T): Promise<T> {
    return await this.#ctx.blockConcurrencyWhile(async () => {
      await this.#ctx.storage.deleteAll();
      this.alarm.clear();
      return remake();
    });
  }

  /** Notes an event. The shell calls it before it hands the event to the object. */
  eventCame(): void {
    this.#gathering.eventCame();
    this.#watchClock(false);
  }

  /** Takes a socket that survives a hibernation of the object. */
  accept(socket: WebSocket): HostSocket<Kept> {
    this.#ctx.acceptWebSocket(socket, [crypto.randomUUID()]);
    return this.socketOf(socket);
  }

  socketOf(socket: WebSocket): HostSocket<Kept> {
    const known = this.#sockets.get(socket);
    if (known) return known;
    const made = new HibernatingSocket<Kept>(this.#ctx, socket);
    this.#sockets.set(socket, made);
    return made;
  }

  /** Takes the hosted object once it has been made. */
  holds(hosted: Hosted): void {
    this.#hosted = hosted;
    if (!hosted.pings) return;
    const { ping, pong } = hosted.pings;
    this.#ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair(ping, pong));
  }

  /** Ends the object if its clock stands still. @param isCertain whether the machine's clock is read in any case */
  #watchClock(isCertain: boolean): void {
    if (this.#isEnding || !this.#clock.standsStill(isCertain)) return;
    this.#isEnding = true;
    log('warn', 'the clock was set back; the object starts again to take it', { queue_id: this.queueId });
    void this.#endForNewClock();
  }

  /** Ends the object. The alarm starts the next one even if nobody calls; no timer would fire. */
  async #endForNewClock(): Promise<void> {
    try {
      this.#hosted.clockSetBack?.();
      this.alarm.setForNext(this.machineTime());
      // After the round trip the current event is over, and its answers have left.
      await this.#roundTrip();
      await this.#ctx.storage.sync();
      await this.#roundTrip();
    } catch (error) {
      log('error', 'the object ends without all of its notes', {
        queue_id: this.queueId,
        error: String(error),
      });
    }
    this.#ctx.abort('the object starts again with a new clock');
  }
}

/** For fewer columns than this the runtime's own row objects cost half as much; at 27 columns they cost half more. */
const WIDE_COLUMNS = 8;

/**
 * Returns the database of a Durable Object in the form that its rules use. Wide rows are made here from arrays of
 * values.
 */
function sqlOf({ sql }: DurableObjectStorage): Sql {
  /** The column names of each query that has returned rows; null: its rows are narrow. */
  const columns = new Map<string, string[] | null>();
  return {
    exec: (query: string, ...bindings: SqlValue[]) => {
      const cursor = sql.exec(query, ...bindings);
      const names = columns.get(query);
      if (names) return Array.from(cursor.raw(), (values) => rowOf(names, values));
      const found = cursor.toArray() as Row[];
      if (names === undefined && found.length > 0) {
        const { columnNames } = cursor;
        columns.set(query, columnNames.length >= WIDE_COLUMNS ? columnNames : null);
      }
      return found;
    },
  };
}

function rowOf(names: readonly string[], values: readonly SqlStorageValue[]): Row {
  const row: Row = {};
  for (let n = 0; n < names.length; n++) row[names[n]!] = values[n]!;
  return row;
}

/** A WebSocket that a Durable Object has accepted with the socket's id as its one tag. */
class HibernatingSocket<Kept> implements HostSocket<Kept> {
  readonly id: string;
  readonly #ctx: DurableObjectState;
  readonly #socket: WebSocket;

  constructor(ctx: DurableObjectState, socket: WebSocket) {
    this.#ctx = ctx;
    this.#socket = socket;
    [this.id = crypto.randomUUID()] = ctx.getTags(socket);
  }

  get isClosing(): boolean {
    return this.#socket.readyState >= WebSocket.CLOSING;
  }

  load(): Kept {
    return this.#socket.deserializeAttachment() as Kept;
  }

  save(kept: Kept): void {
    this.#socket.serializeAttachment(kept);
  }

  send(message: string | Uint8Array<ArrayBuffer>): void {
    quietly(() => this.#socket.send(message));
    if (typeof message !== 'string') freeBytes(message);
  }

  close(code: number, reason: string): void {
    quietly(() => this.#socket.close(code, reason));
  }

  pingedAt(): number {
    return this.#ctx.getWebSocketAutoResponseTimestamp(this.#socket)?.getTime() ?? 0;
  }
}

/** Writes a line of the log through the runtime's console. */
const log: Log = (level, message, fields) => console.log(JSON.stringify({ level, msg: message, ...fields }));
