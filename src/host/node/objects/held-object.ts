import { setTimeout as sleep } from 'node:timers/promises';
import { CLOSE_ANSWER_MS, type Log, type ObjectHost } from '../../../durable/host.ts';
import { systemClock, type Timer } from '../../../process/clock.ts';
import { UpgradeResponse } from '../http/upgrade.ts';
import { ObjectDatabase } from '../storage/database.ts';
import type { CommitTaker } from '../storage/recorder.ts';
import { Pauses } from './alarm-clock.ts';
import { type Caller, Life, ObjectEnded } from './life.ts';
import type { OpenObjects } from './open-objects.ts';

export interface HeldObjectParts {
  /** The queue id of the object; null: its database stores it. */
  queueId: string | null;
  /** The path of the object's database. */
  path: string;
  /** Makes the object. @param caller stands for the object when it asks others */
  make(host: ObjectHost<never>, caller: Caller): object | Promise<object>;
  /** Called when the object has noticed that the clock was set back. */
  clockMoved(): void;
  open: OpenObjects;
  /** Returns why the object must not act now; null: it may. */
  problem(): Error | null;
  /** Takes what the object commits, and holds back what leaves it; undefined: nothing does. */
  commits: CommitTaker | undefined;
  /** Called when a sync failed: the process has to end. */
  fatal(error: Error): void;
  log: Log;
}

/** An object that ended within this many ms would end again: if nobody calls it, it is made anew only after a pause. */
const SHORT_LIFE_MS = 10_000;

/** If an object cannot be made, its callers get the error for this many ms before it is tried again. */
const TRIED_AGAIN_MS = 1000;

/** An object that must not act now looks again after this many ms. */
const LOOK_AGAIN_MS = 1000;

/** A process that ends waits at most this many ms for what an object still has to do. */
const LEAVE_WITHIN_MS = 2000;

const STOPPED = 'the process of the queue ends';

/** One object of a queue id over all its lives. The first call, or its alarm, makes the object. */
export class HeldObject {
  readonly #parts: HeldObjectParts;
  #queueId: string | null;
  readonly #alarmPauses = new Pauses();
  readonly #wakePauses = new Pauses();
  #database: ObjectDatabase | null = null;
  #opens: Promise<ObjectDatabase> | null = null;
  #closes: Promise<void> | undefined;
  #life: Life | null = null;
  #begins: Promise<Life> | null = null;
  #bornAt = 0;
  #waking: Timer;
  /** The time of the closed object's alarm, epoch ms; null: it is not set, or the object is not closed. */
  #wakesAt: number | null = null;
  /** The error of the last failure to make the object. Callers get it until `until`, ms of `performance.now()`. */
  #problem: { error: Error; until: number } | null = null;
  #hasStopped = false;

  constructor(parts: HeldObjectParts) {
    this.#parts = parts;
    this.#queueId = parts.queueId;
  }

  /** Sets the queue id of an object that was found in the folder: a damaged database does not hold it. */
  named(queueId: string): void {
    this.#queueId ??= queueId;
  }

  /**
   * Asks the object.
   * @param waits whether the answer waits until what the object wrote before it is on disk
   * @param inLine whether an object that is not open waits in line to be opened; the call rejects if the line is too
   * long
   */
  call(name: string, asked: readonly unknown[], waits: boolean, inLine: boolean): Promise<unknown> {
    const problem = this.#parts.problem();
    if (problem) return Promise.reject(problem);
    // While the object begins, a new call queues behind the calls that wait for it.
    if (this.#life && !this.#begins) return this.#life.call(name, asked, waits);
    return this.#begin(inLine).then((life) => life.call(name, asked, waits));
  }

  /** Opens a socket of the object, if the object accepts one more. @returns the answer to the upgrade */
  async connect(opened: unknown): Promise<Response> {
    const notNow = this.#parts.problem();
    if (notNow) throw notNow;
    const life = this.#life ?? (await this.#begin(true));
    const problem = await life.mayOpen();
    if (problem !== null) return new Response(problem, { status: 503 });
    return new UpgradeResponse((socket) => life.open(opened, socket));
  }

  /** Makes the object if its alarm is set. Never rejects. */
  async wake(): Promise<void> {
    if (this.#parts.problem()) return this.#wakeLater(LOOK_AGAIN_MS);
    try {
      const database = await this.#open(true);
      if (this.#life || this.#begins || this.#hasStopped) return;
      // Each open database has four descriptors.
      if (database.begin().alarm.get() === null) this.#close();
      else await (await this.#begin(false)).made();
    } catch (error) {
      if (this.#hasStopped) return;
      const { path, log } = this.#parts;
      log('error', 'an object of a queue cannot begin', { path, error: String(error) });
      if (this.#wakePauses.leftMs() === 0) this.#wakePauses.failed();
      this.#wakeAfterPause();
    }
  }

  /** The time since which the object has been idle, ms of `performance.now()`; null: it is at work, or closed. */
  get idleSince(): number | null {
    return this.#begins ? null : (this.#life?.idleSince ?? null);
  }

  /** Closes the object if it is idle, to free descriptors and memory: the next call or its alarm makes it again. */
  closeIdle(): void {
    const life = this.#life;
    if (life === null || this.idleSince === null) return;
    this.#wakesAt = life.alarm.get();
    this.#life = null;
    life.end(new ObjectEnded('the object was closed, since nothing happened in it'));
    this.#closing(this.#database!.closeBesides());
    this.#armWaking();
  }

  /** Sets the timers of the alarm again, since the wall clock was set forward. */
  armAlarm(): void {
    this.#life?.armAlarm();
    this.#armWaking();
  }

  /** Ends the life of the object and begins the next one, since the clock was set back. */
  async beginAnew(): Promise<void> {
    if (this.#life === null) return this.#armWaking();
    await this.#life.endForNewClock();
    this.#alarmPauses.worked();
    this.#wakePauses.worked();
    await this.wake();
  }

  /** Ends the life of the object, since nothing may leave it now. @param error the error that its callers get */
  pause(error: Error): void {
    this.#life?.end(error);
  }

  /** Lets the object close its sockets, and ends it. By then earlier calls are answered, and their writes on disk. */
  async stop(): Promise<void> {
    const life = this.#life;
    if (life) {
      await Promise.race([life.leave().catch(() => {}), sleep(LEAVE_WITHIN_MS, null, { ref: false })]);
      await sleep(CLOSE_ANSWER_MS);
    }
    this.#hasStopped = true;
    systemClock.clearTimeout(this.#waking);
    this.#life?.end(new ObjectEnded(STOPPED));
    life?.dropSockets();
    const database = await this.#opens?.catch(() => null);
    await database?.close();
    await this.#closes;
  }

  async #begin(inLine: boolean): Promise<Life> {
    if (this.#problem && performance.now() < this.#problem.until) throw this.#problem.error;
    const problem = inLine && !this.#database ? this.#parts.open.problem : null;
    if (problem) throw problem;
    this.#begins ??= this.#beginNow(inLine).finally(() => {
      this.#begins = null;
    });
    return await this.#begins;
  }

  async #beginNow(inLine: boolean): Promise<Life> {
    const database = await this.#open(inLine);
    if (this.#hasStopped) throw new ObjectEnded(STOPPED);
    const { make, clockMoved, log } = this.#parts;
    this.#bornAt = performance.now();
    this.#wakesAt = null;
    try {
      const life = new Life({
        queueId: this.#queueId,
        database,
        pauses: this.#alarmPauses,
        make,
        clockMoved,
        problem: this.#parts.problem,
        ended: (life, wasMade, error) => this.#ended(life, wasMade, error),
        log,
      });
      if (!life.hasEnded) this.#life = life;
      return life;
    } catch (error) {
      this.#close();
      this.#isNotMade(error as Error);
      throw error;
    }
  }

  #isNotMade(error: Error): void {
    this.#problem = { error, until: performance.now() + TRIED_AGAIN_MS };
  }

  #open(inLine: boolean): Promise<ObjectDatabase> {
    const { path, open, commits, fatal, log } = this.#parts;
    const opening = async () => {
      // The call joins the line first, so that callers of the same turn see how many wait.
      const over = await open.room(inLine);
      try {
        await this.#closes;
        if (this.#hasStopped) throw new ObjectEnded(STOPPED);
        this.#database = await ObjectDatabase.open(path, {
          fatal,
          lost: (error) => this.#life?.end(error),
          alarmStored: () => this.#life?.armAlarm(),
          ...(commits && { commits }),
          log,
        });
        open.opened(this);
        return this.#database;
      } finally {
        over();
      }
    };
    this.#opens ??= opening().catch((error: unknown) => {
      this.#opens = null;
      if (!(error instanceof ObjectEnded)) this.#isNotMade(error as Error);
      throw error;
    });
    return this.#opens;
  }

  /** Closes a database from which no object was made, since an operator may put another in its place. */
  #close(): void {
    const database = this.#database;
    if (database !== null) this.#closing(database.close());
  }

  #closing(closes: Promise<void>): void {
    const { log, path, open } = this.#parts;
    this.#closes = closes
      .catch((error: unknown) => {
        log('warn', 'a database is not closed as it should', { path, error: String(error) });
      })
      .finally(() => open.closed(this));
    this.#database = null;
    this.#opens = null;
  }

  #ended(life: Life, wasMade: boolean, error: Error): void {
    // `closeIdle` has ended this life.
    if (wasMade && this.#life !== life) return;
    this.#life = null;
    if (this.#hasStopped) return;
    if (!wasMade) {
      this.#close();
      if (!(error instanceof ObjectEnded)) this.#isNotMade(error);
    }
    if (performance.now() - this.#bornAt < SHORT_LIFE_MS) this.#wakePauses.failed();
    else this.#wakePauses.worked();
    this.#wakeAfterPause();
  }

  #wakeAfterPause(): void {
    this.#wakeLater(this.#wakePauses.leftMs());
  }

  /**
   * Sets the timer that makes a closed object again when its alarm is due, but not before the pause after a failure
   * ends.
   */
  #armWaking(): void {
    if (this.#wakesAt === null) return;
    this.#wakeLater(Math.max(this.#wakesAt - Date.now(), this.#alarmPauses.leftMs()));
  }

  #wakeLater(ms: number): void {
    systemClock.clearTimeout(this.#waking);
    this.#waking = systemClock.setTimeout(() => void this.wake(), ms);
  }
}
