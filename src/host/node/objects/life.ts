import type { WebSocket } from 'ws';
import type { HostSocket, Log, ObjectHost } from '../../../durable/host.ts';
import type { Alarm, Sql } from '../../../durable/ports.ts';
import { systemClock, type Timer } from '../../../process/clock.ts';
import type { ObjectDatabase } from '../storage/database.ts';
import type { ObjectStorage } from '../storage/storage.ts';
import { AlarmClock, type Pauses } from './alarm-clock.ts';
import { type Hosted, LifeSockets } from './life-sockets.ts';
import { plainCopy } from './plain-copy.ts';
import { keptQueueId } from './queue-id.ts';
import { type Failed, runWatched } from './run-watched.ts';
import type { Leave } from './socket.ts';

/** An object that asks others. */
export interface Caller {
  leave: Leave;
  /** Runs work in the object, unless it has ended. */
  hears(work: () => void): void;
  /** Counts the object as at work until the promise settles. */
  during(work: Promise<unknown>): void;
}

export interface LifeParts {
  /** The queue id of the object; null: the database stores it. */
  queueId: string | null;
  database: ObjectDatabase;
  pauses: Pauses;
  /** Makes the object. @param caller stands for the object when it asks others */
  make(host: ObjectHost<never>, caller: Caller): object | Promise<object>;
  /** Called when the object has noticed that the clock was set back. */
  clockMoved(): void;
  /** Returns why nothing may leave the object now; null: it may. */
  problem(): Error | null;
  /**
   * Called once, at the end. @param wasMade whether the object took calls @param error the error that its callers get
   */
  ended(life: Life, wasMade: boolean, error: Error): void;
  log: Log;
}

/** The error of a call whose object has ended; a retry reaches the next object. */
export class ObjectEnded extends Error {
  readonly retryable = true;
}

const AFTER_ERROR = 'the object starts again after an error';

/** One life of an object, from its making to its end. It hosts the object, and hands it calls and events. */
export class Life implements ObjectHost<unknown> {
  readonly queueId: string;
  readonly sql: Sql;
  readonly alarm: Alarm;
  readonly log: Log;
  readonly #parts: LifeParts;
  readonly #storage: ObjectStorage;
  readonly #alarmClock: AlarmClock;
  readonly #made: Promise<Hosted>;
  readonly #sockets: LifeSockets;
  readonly #timers = new Set<Timer>();
  /** The callers that have no answer yet: each is rejected if the object ends. */
  readonly #callers = new Set<(error: Error) => void>();
  /** The number of calls, events, background tasks and questions to others that have not ended. */
  #atWork = 0;
  /** The time of the last call or event, ms of `performance.now()`. */
  #usedAt = performance.now();
  #hosted: Hosted | null = null;
  /** The error with which the life has ended, which its callers get; null: it has not ended. */
  #end: Error | null = null;
  /** The latest time that `now` has returned, epoch ms. */
  #latest = 0;

  constructor(parts: LifeParts) {
    const { queueId, database, pauses, log } = parts;
    this.#parts = parts;
    this.log = log;
    this.#storage = database.begin();
    this.sql = this.#storage.sql;
    this.queueId = keptQueueId(this.sql, queueId);
    this.alarm = this.#storage.alarm;
    this.#alarmClock = new AlarmClock({
      alarm: this.#storage.alarm,
      now: () => this.now(),
      fire: (setFor) =>
        new Promise((resolve, reject) => {
          this.#tell('its alarm', () => this.#hosted?.alarm?.(setFor), reject, resolve);
        }),
      pauses,
    });
    this.#sockets = new LifeSockets({
      now: () => this.now(),
      leave: (effect) => this.#leave(effect),
      tell: (what, tell, failed) => this.#tell(what, tell, failed),
      fail: () => this.restart(AFTER_ERROR),
      log,
    });
    this.#made = this.#make();
    this.#made.catch((error: unknown) => this.end(error as Error));
  }

  get hasEnded(): boolean {
    return this.#end !== null;
  }

  /** The time since which the object has been idle, ms of `performance.now()`; null: it is at work. */
  get idleSince(): number | null {
    const isAtWork = this.#hosted === null || this.#callers.size + this.#timers.size + this.#atWork > 0;
    return isAtWork || this.#sockets.any || !this.#parts.database.isSynced ? null : this.#usedAt;
  }

  /** Resolves when the object accepts calls; rejects if it ends before. */
  made(): Promise<Hosted> {
    return new Promise((resolve, reject) => {
      if (this.#end) return reject(this.#end);
      this.#callers.add(reject);
      const made = (hosted: Hosted) => {
        this.#callers.delete(reject);
        resolve(hosted);
      };
      this.#made.then(made, () => {});
    });
  }

  now(): number {
    const now = Date.now();
    if (now < this.#latest) this.#parts.clockMoved();
    else this.#latest = now;
    return this.#latest;
  }

  machineTime(): number {
    return Date.now();
  }

  databaseBytes(): number {
    return this.#storage.databaseBytes();
  }

  transaction<T>(work: () => T): T {
    return this.#storage.transaction(work);
  }

  gathered(): Promise<void> {
    return this.#storage.gathered();
  }

  after(ms: number, run: () => void): () => void {
    if (this.#end) return () => {};
    const timer = systemClock.setTimeout(() => {
      this.#timers.delete(timer);
      this.#tell('a timer', run, () => this.restart(AFTER_ERROR));
    }, ms);
    this.#timers.add(timer);
    return () => {
      systemClock.clearTimeout(timer);
      this.#timers.delete(timer);
    };
  }

  background(work: Promise<unknown>): void {
    this.#during(work.catch((error: unknown) => this.#failed('its work in the background', error)));
  }

  sockets(): HostSocket<unknown>[] {
    return this.#sockets.all();
  }

  restart(reason: string): void {
    this.end(new ObjectEnded(reason));
  }

  async clear<T>(remake: () => T): Promise<T> {
    return this.#storage.clear(() => {
      keptQueueId(this.sql, this.queueId);
      return remake();
    });
  }

  /**
   * Calls a method of the object.
   * @param waits whether the answer waits until what the object wrote before it is on disk
   */
  call(name: string, asked: readonly unknown[], waits: boolean): Promise<unknown> {
    return new Promise((resolve, reject) => {
      if (this.#end) return reject(this.#end);
      this.#callers.add(reject);
      const answered = (effect: () => void) => {
        this.#callers.delete(reject);
        effect();
      };
      const answer = (effect: () => void) => (waits ? this.#leave(() => answered(effect)) : answered(effect));
      const ask = (hosted: Hosted) => {
        if (this.#end) return;
        const method = (hosted as unknown as Record<string, (...asked: unknown[]) => unknown>)[name]!;
        const failed = (error: unknown, isHalfDone: boolean) => {
          if (!isHalfDone) return answer(() => reject(error));
          answered(() => reject(error));
          this.#failed(`the call ${name}`, error);
          this.restart(AFTER_ERROR);
        };
        const done = (value: unknown) => {
          // The bytes of an answer belong to the caller from now on, so they need no copy.
          const copy = plainCopy(value, 'lent');
          answer(() => resolve(copy));
        };
        this.#run(() => method.apply(hosted, asked as unknown[]), done, failed);
      };
      // The call is never made in the same turn, since this object may call its caller, which is still at work.
      this.#made.then(ask, () => {});
    });
  }

  /** Returns why no socket may be opened, a sentence, or null. */
  async mayOpen(): Promise<string | null> {
    const hosted = await this.made();
    this.#usedAt = performance.now();
    return hosted.mayOpen?.() ?? null;
  }

  /** Takes a socket that has just been opened, after `mayOpen`. */
  open(opened: unknown, webSocket: WebSocket): void {
    this.#sockets.open(this.#hosted!, opened, webSocket);
  }

  /** Closes the sockets before the process ends, and waits until all that was written is on disk. */
  async leave(): Promise<void> {
    const hosted = this.#hosted as { closeSockets?: unknown } | null;
    if (hosted?.closeSockets) await this.call('closeSockets', [], true);
    this.#sockets.close();
    await this.#parts.database.synced();
  }

  /** Drops connections whose peers have not answered the close. */
  dropSockets(): void {
    this.#sockets.drop();
  }

  /** Sets the alarm's timer: another time is stored, or the wall clock, which timers ignore, was set forward. */
  armAlarm(): void {
    if (this.#hosted) this.#alarmClock.arm();
  }

  /** Ends this life because the machine's clock was set back: the next object has the new time. */
  async endForNewClock(): Promise<void> {
    if (this.#end) return;
    this.log('warn', 'the clock was set back; the object starts again to take it', {
      queue_id: this.queueId,
    });
    if (this.#hosted)
      this.#tell(
        'the new clock',
        () => this.#hosted?.clockSetBack?.(),
        () => {},
      );
    await this.#parts.database.synced()?.catch(() => {});
    this.restart('the object starts again with a new clock');
  }

  /** Ends this life and undoes what the object has not committed. @param error the error that its callers get */
  end(error: Error): void {
    if (this.#end) return;
    this.#end = error;
    const { database, pauses, ended } = this.#parts;
    database.undo(error);
    if (this.#alarmClock.isFiring) pauses.failed();
    this.#alarmClock.end();
    for (const timer of this.#timers) systemClock.clearTimeout(timer);
    this.#sockets.end();
    for (const reject of this.#callers) reject(error);
    this.#callers.clear();
    ended(this, this.#hosted !== null, error);
  }

  async #make(): Promise<Hosted> {
    const caller: Caller = {
      leave: (effect) => this.#leave(effect),
      hears: (work) => {
        if (!this.#end) work();
      },
      during: (work) => this.#during(work),
    };
    this.#hosted = (await this.#parts.make(this as unknown as ObjectHost<never>, caller)) as Hosted;
    this.#alarmClock.arm();
    return this.#hosted;
  }

  #leave(effect: () => void): void {
    if (this.#end) return;
    this.#parts.database.whenSynced(() => {
      const problem = this.#end ? null : this.#parts.problem();
      if (problem) this.end(problem);
      if (!this.#end) effect();
    });
  }

  /** Hands the object an event. @param failed called if that throws, unless the object is restarted anyway */
  #tell(what: string, tell: () => unknown, failed: () => void, done = () => {}): void {
    const threw = (error: unknown, isHalfDone: boolean) => {
      this.#failed(what, error);
      if (isHalfDone) this.restart(AFTER_ERROR);
      else failed();
    };
    this.#run(tell, done, threw);
  }

  #run(work: () => unknown, done: (value: unknown) => void, failed: Failed): void {
    const over = this.#begun();
    runWatched(
      this.#parts.database,
      work,
      (value) => {
        over();
        if (!this.#end) done(value);
      },
      (...failure) => {
        over();
        if (!this.#end) failed(...failure);
      },
    );
  }

  #during(work: Promise<unknown>): void {
    const over = this.#begun();
    work.then(over, over);
  }

  /** Counts the object as at work. @returns a function that ends that; further calls of it do nothing */
  #begun(): () => void {
    let isOver = false;
    this.#atWork += 1;
    return () => {
      if (isOver) return;
      isOver = true;
      this.#atWork -= 1;
      this.#usedAt = performance.now();
    };
  }

  #failed(what: string, error: unknown): void {
    if (this.#end) return;
    const text = (error as Partial<Error> | null)?.stack ?? String(error);
    this.log('error', `the queue failed where it should not: ${what}`, {
      queue_id: this.queueId,
      error: text,
    });
  }
}
