import { closeSync, fdatasync, fstatSync, openSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { promisify } from 'node:util';
import type { Log } from '../../../durable/host.ts';
import type { Row, SqlValue } from '../../../durable/ports.ts';
import { isBusy, openDatabase } from '../../../state/sqlite.ts';
import { KeptAlarm } from './alarm.ts';
import { checkpoint } from './checkpoint-thread.ts';
import { isSyncError, type SqliteError, syncFailure, withCode, withCodeOfFile } from './errors.ts';
import { makeFolder, syncFolder } from './files.ts';
import { LOG_LIMITS, LogBound, type LogLimits } from './log-bound.ts';
import { Outputs } from './outputs.ts';
import { type CommitTaker, Recorder } from './recorder.ts';
import { Statements } from './statements.ts';
import { type ObjectStorage, storageOf } from './storage.ts';
import { copyLog, useLog } from './write-ahead-log.ts';

/** The queue waits once for another process that writes, at most this many ms, since the wait holds up all queues. */
const BUSY_MS = 1000;

/** The events of a database that the host handles. */
export interface DatabasePorts {
  /** Called when a sync failed: acknowledged data may be lost, so the process ends. */
  fatal(error: Error): void;
  /**
   * Called when the writes since the last commit were undone, and the object's memory is ahead of its tables: the host
   * makes a new object. The old storage accepts no more statements; `begin` gives the next one. The message has
   * SQLite's code.
   */
  lost(error: Error): void;
  /** Called when a commit has stored another time; null: the alarm is no longer set. */
  alarmStored(at: number | null): void;
  /** Takes what each commit has written, and then all outputs wait for it too; left out: nothing is recorded. */
  commits?: CommitTaker;
  log: Log;
}

/**
 * The database of one object, over all its lives. The host uses it like this:
 *
 *     const database = await ObjectDatabase.open(path, ports);
 *     const storage = database.begin();        // sql, alarm, transaction, gathered, databaseBytes, clear of ObjectHost
 *     database.whenSynced(() => reply(…), (error) => refuse(error));   // for all that leaves the object
 *     database.undo(new Error(reason));        // restart: the open transaction is undone, `storage` ends
 *     const next = database.begin();           // the new object's
 *     await database.close();
 *
 * The first write of a turn begins a transaction by itself. `setImmediate` commits it; if a sync is in progress, the
 * end of that sync commits it, so that a group gathers. COMMIT syncs nothing: the thread pool syncs the log after it,
 * and all outputs of the object wait for that. docs/decisions/node-storage.md says why that is durable.
 */
export class ObjectDatabase {
  readonly #path: string;
  readonly #ports: DatabasePorts;
  readonly #database: DatabaseSync;
  readonly #statements: Statements;
  /** The descriptor of the log's file for syncs; SQLite has its own. */
  readonly #log: number;
  readonly #bound: LogBound;
  readonly #outputs: Outputs;
  readonly #recorder: Recorder | null;
  #alarm: KeptAlarm | null = null;
  /** Whether a transaction is open. */
  #isOpen = false;
  #commit: NodeJS.Immediate | null = null;
  /**
   * The number of statements that may have written, except those that a transaction has undone, and the number of
   * commits.
   */
  written = 0;
  commits = 0;
  /** Whether another process holds the lock that a write needs, and the queue has already waited for it. */
  #isLockedOut = false;
  /** The error that every statement gets; null while an object lives. */
  #ended: Error | null = new Error('the object has not begun');
  #closed: Promise<void> | null = null;

  private constructor(path: string, ports: DatabasePorts, database: DatabaseSync, limits: LogLimits) {
    this.#path = path;
    this.#ports = ports;
    this.#database = database;
    useLog(database, limits.copied);
    this.#statements = new Statements(database);
    this.#log = openSync(`${path}-wal`, 'r');
    this.#recorder = ports.commits ? new Recorder() : null;
    this.#bound = new LogBound(limits, {
      bytes: () => fstatSync(this.#log).size,
      copy: () => checkpoint(path),
      copyNow: () => this.#copyNow(),
      commit: () => this.commitNow(),
      failed: (error) => this.#copyFailed(error),
      now: () => performance.now(),
    });
    this.#outputs = new Outputs({
      sync: (done) => this.#sync(done),
      afterSync: () => {
        if (this.#isOpen) this.#commitSoon();
      },
      syncFailed: (error) => this.#endProcess(error),
      threw: (error) => ports.log('error', 'an output of an object failed', { error: textOf(error) }),
    });
  }

  /**
   * Opens a database, or makes it and the folders above it, and syncs what an earlier process left unsynced.
   * @throws Error with SQLite's code in its message
   */
  static async open(path: string, ports: DatabasePorts, limits = LOG_LIMITS): Promise<ObjectDatabase> {
    let database: DatabaseSync | null = null;
    let opened: ObjectDatabase | null = null;
    try {
      await makeFolder(dirname(path));
      database = openDatabase(path, { timeout: BUSY_MS });
      opened = new ObjectDatabase(path, ports, database, limits);
      await syncFolder(dirname(path));
      // A process that ended before its sync may have committed what is read now.
      await promisify(fdatasync)(opened.#log);
      return opened;
    } catch (error) {
      const shown = withCodeOfFile(error, path);
      if (isSyncError(error)) ports.fatal(syncFailure(path, shown));
      if (opened) closeSync(opened.#log);
      database?.close();
      throw shown;
    }
  }

  /** Begins a life of the object. @returns its storage, which works until `undo` */
  begin(): ObjectStorage {
    this.#ended = null;
    const alarm = new KeptAlarm({ exec: (query, ...bindings) => this.#exec(query, bindings) }, () =>
      this.#write(),
    );
    this.#alarm = alarm;
    return storageOf(alarm, {
      check: () => {
        if (this.#ended) throw this.#ended;
        if (this.#alarm !== alarm) throw new Error('the object has ended');
      },
      exec: (query, bindings) => this.#exec(query, bindings),
      transaction: (work) => this.#transaction(alarm, work),
      gathered: () => this.#gathered(),
      clear: (remake) => this.#clear(alarm, remake),
    });
  }

  /** Ends the life of the object: undoes its writes since the last commit, and drops the outputs that wait for them. */
  undo(reason: Error): void {
    this.#ended ??= reason;
    this.#isOpen = false;
    if (this.#database.isTransaction) this.#database.exec('ROLLBACK');
    this.#recorder?.take();
    this.#outputs.undone(reason);
  }

  /** Commits the open transaction, for a host that knows that the group ends here. */
  commitNow(): void {
    if (!this.#isOpen) return;
    let isAlarmStored = false;
    try {
      isAlarmStored = this.#alarm!.write();
      this.#database.exec('COMMIT');
    } catch (error) {
      this.#lose(error);
      return;
    }
    this.#isOpen = false;
    this.commits += 1;
    if (this.#recorder) this.#ports.commits!.committed(this.#recorder.take());
    this.#outputs.committed();
    this.#bound.grown();
    if (isAlarmStored) this.#ports.alarmStored(this.#alarm!.get());
  }

  /** Whether all writes are on disk. */
  get isSynced(): boolean {
    return this.#outputs.isEmpty;
  }

  /** Resolves when all writes up to now are on disk, rejects if they are undone. Returns null if they are on disk. */
  synced(): Promise<void> | null {
    if (this.#outputs.isEmpty) return null;
    return new Promise((resolve, reject) => this.whenSynced(resolve, reject));
  }

  /**
   * Runs an output of the object once everything written before it is on disk: at once if it is, else in order.
   * @param lost called instead if the writes are undone
   */
  whenSynced(run: () => void, lost?: (error: Error) => void): void {
    this.#outputs.whenSynced({ run, lost });
  }

  /**
   * Closes without holding up other work: the log is copied first, since SQLite would otherwise copy it in this thread.
   */
  async closeBesides(): Promise<void> {
    await this.#bound.idle();
    await this.#bound.copy();
    await this.close();
  }

  /** Commits, syncs, copies the log into the database and closes the files. */
  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    this.commitNow();
    this.#ended ??= new Error('the database is closed');
    await this.synced();
    await this.#bound.idle();
    closeSync(this.#log);
    this.#database.close();
  }

  #exec(query: string, bindings: readonly SqlValue[]): Row[] {
    const before = this.written;
    try {
      const rows = this.#statements.run(query, bindings, () => this.#write());
      if (this.written !== before) this.#recorder?.wrote(query, bindings);
      return rows;
    } catch (error) {
      this.written = before;
      // SQLite itself undoes a transaction after some errors of the disk.
      if (this.#isOpen && !this.#database.isTransaction) this.#lose(error);
      throw withCode(error, this.#path);
    }
  }

  /** Syncs what was committed, and waits for whoever takes the commits. */
  #sync(done: (error: Error | null) => void): void {
    const { commits } = this.#ports;
    if (!commits) return fdatasync(this.#log, done);
    const both = [
      promisify(fdatasync)(this.#log),
      new Promise<void>((resolve) => commits.whenStored(resolve)),
    ];
    Promise.all(both).then(
      () => done(null),
      (error: Error) => done(error),
    );
  }

  /** Begins a transaction unless one is open. */
  #write(): void {
    if (this.#ended) throw this.#ended;
    this.written += 1;
    if (this.#isOpen) return;
    this.#bound.beforeBegin();
    this.#beginTransaction();
    this.#isOpen = true;
    this.#outputs.begun();
    if (!this.#outputs.isSyncing) this.#commitSoon();
  }

  /** Begins a transaction. Waits once for a process that holds the lock, and not again until the lock is free. */
  #beginTransaction(): void {
    try {
      this.#database.exec('BEGIN IMMEDIATE');
    } catch (error) {
      if (isBusy(error)) this.#setLockedOut(true);
      throw error;
    }
    this.#setLockedOut(false);
  }

  #setLockedOut(isLockedOut: boolean): void {
    if (isLockedOut === this.#isLockedOut) return;
    this.#isLockedOut = isLockedOut;
    this.#database.exec(`PRAGMA busy_timeout = ${isLockedOut ? 0 : BUSY_MS}`);
    if (isLockedOut)
      this.#ports.log(
        'warn',
        'another process holds the lock of a database: writes to it fail until it lets go',
        {
          path: this.#path,
        },
      );
  }

  #commitSoon(): void {
    this.#commit ??= setImmediate(() => {
      this.#commit = null;
      // A host that commits by itself may have begun a sync: the end of that sync commits what was written since.
      if (!this.#outputs.isSyncing) this.commitNow();
    });
  }

  #transaction<T>(alarm: KeptAlarm, work: () => T): T {
    const before = this.written;
    const forgetWrites = this.#recorder?.mark();
    this.#exec('SAVEPOINT work', []);
    const putBack = alarm.mark();
    try {
      const result = work();
      this.#exec('RELEASE work', []);
      return result;
    } catch (error) {
      // If no transaction is open, SQLite has already undone all of it.
      if (this.#isOpen) this.#database.exec('ROLLBACK TO work; RELEASE work');
      putBack();
      forgetWrites?.();
      this.written = before;
      throw error;
    }
  }

  async #gathered(): Promise<void> {
    await (this.synced() ?? new Promise<void>((resolve) => setImmediate(resolve)));
    await this.#bound.room();
  }

  #clear<T>(alarm: KeptAlarm, remake: () => T): T {
    const tables = this.#exec(
      `SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT GLOB 'sqlite_*'`,
      [],
    );
    for (const { name } of tables) this.#exec(`DROP TABLE "${String(name)}"`, []);
    this.#statements.forget();
    alarm.forget();
    const made = remake();
    this.commitNow();
    if (this.#ended) throw this.#ended;
    this.#giveBack();
    return made;
  }

  /** Returns the space of deleted data to the disk. */
  #giveBack(): void {
    try {
      this.#database.exec('VACUUM');
    } catch (error) {
      this.#copyFailed(error as SqliteError);
    }
    this.#outputs.committed();
    // The file shrinks when all of the log has been copied into it.
    void this.#bound.copyAll(() => this.#closed !== null || this.#isCut());
  }

  /** Returns whether the file is no longer than the database in it. */
  #isCut(): boolean {
    const query = `SELECT page_count * page_size AS bytes FROM pragma_page_count, pragma_page_size`;
    const { bytes } = this.#database.prepare(query).get()!;
    return statSync(this.#path).size <= Number(bytes);
  }

  /** Ends the object whose open transaction has failed, and reports this. */
  #lose(error: unknown): void {
    if (!this.#isOpen) return;
    const shown = withCode(error, this.#path);
    if (isSyncError(error)) return this.#endProcess(shown);
    this.undo(shown);
    // The report waits for the object's current work, which gets the error of its statement first.
    queueMicrotask(() => this.#ports.lost(shown));
  }

  #copyNow(): boolean {
    try {
      return copyLog(this.#database);
    } catch (error) {
      this.#copyFailed(error as SqliteError);
      return false;
    }
  }

  #copyFailed(error: Pick<SqliteError, 'message' | 'errcode'>): void {
    const shown = withCode(Object.assign(new Error(error.message), { errcode: error.errcode }), this.#path);
    if (isSyncError(error)) return this.#endProcess(shown);
    this.#ports.log('warn', 'a database keeps the disk it does not need, or its log, for now', {
      error: shown.message,
    });
  }

  #endProcess(error: Error): void {
    this.#ended = error;
    this.#isOpen = false;
    this.#ports.fatal(syncFailure(this.#path, error));
  }
}

function textOf(error: unknown): string {
  return (error as Partial<Error>)?.stack ?? String(error);
}
