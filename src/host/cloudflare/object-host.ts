import type { HostedObject, HostSocket, ObjectHost } from '../../durable/host.ts';
import type { Sql } from '../../durable/ports.ts';
import { ClockWatch } from './clock-watch.ts';
import { Gathering } from './gathering.ts';
import { HibernatingSocket } from './hibernating-socket.ts';
import { log } from './log.ts';
import { machineTime } from './machine-time.ts';
import { sqlOf } from './storage.ts';
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

  /** @param roundTrip calls the object itself; it returns after the events that were waiting when it was made */
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
    // Under another queue's id the object would delete the files of this queue's jobs, which the other does not know.
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
    // While the clock stands still the timer would not fire. The look waits for the object's current work to end.
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
      // After the round trip the current event is done, and its answers have left.
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
