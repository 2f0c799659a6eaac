import { mkdirSync } from 'node:fs';
import { open, readdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { openDatabase } from '../../../state/sqlite.ts';
import { mayPass, withCode } from '../storage/errors.ts';
import { makeFolder, syncFolder } from '../storage/files.ts';
import { Statements } from '../storage/statements.ts';
import { useLog } from '../storage/write-ahead-log.ts';
import { DATABASE, decode, type Group } from './entry.ts';
import type { Entry, Place } from './journal.ts';

/** The most databases that stay open. */
const MOST_OPEN = 100;
/** SQLite copies the log of a database into it when it has this many pages. */
const CHECKPOINT_PAGES = 1000;
const LOG_BYTES = CHECKPOINT_PAGES * 8192;

/** The error of files that cannot follow the journal any more, and have to be made again from a snapshot. */
export class Diverged extends Error {}

interface OpenDatabase {
  path: string;
  database: DatabaseSync;
  statements: Statements;
  /** The last entry that this database has. */
  applied: number;
}

/**
 * Carries the entries of a journal out on the databases of a folder. Each database stores the number of its last entry
 * in the transaction that has its writes, so after a crash none is carried out twice.
 */
export class Replica {
  readonly #dataDir: string;
  #place: Place;
  /** The open databases by their path in groups, the least recently used first. */
  readonly #open = new Map<string, OpenDatabase>();
  /** The databases that were changed since `sync`. */
  readonly #changed = new Set<string>();

  /** @param place the entry up to which all databases have everything */
  constructor(dataDir: string, place: Place) {
    this.#dataDir = dataDir;
    this.#place = place;
  }

  get place(): Place {
    return this.#place;
  }

  /**
   * Applies the entries that follow, all or none of them in each database.
   * @throws Diverged if they do not follow, or cannot be carried out; any other error if that may pass, as on a full disk
   */
  apply(entries: readonly Entry[]): void {
    let place = this.#place;
    try {
      for (const entry of entries) {
        if (entry.seq !== place.seq + 1)
          throw new Diverged(`the journal has no entry ${place.seq + 1} any more`);
        this.#applyOne(entry, place);
        place = { seq: entry.seq, epoch: entry.epoch };
      }
      this.#each((one) => {
        storeApplied(one.database, place.seq);
        one.database.exec('COMMIT');
        one.applied = place.seq;
      });
    } catch (error) {
      this.#each(({ database }) => database.exec('ROLLBACK'));
      throw error;
    }
    this.#place = place;
    this.#closeSome();
  }

  /** Resolves when everything up to the place of the call is on disk. */
  async sync(): Promise<Place> {
    const place = this.#place;
    const changed = [...this.#changed];
    this.#changed.clear();
    for (const name of changed) {
      const path = join(this.#dataDir, name);
      await makeFolder(dirname(path));
      await syncFolder(dirname(path));
      await syncLog(path);
    }
    return place;
  }

  close(): void {
    for (const { database } of this.#open.values()) database.close();
    this.#open.clear();
  }

  #applyOne({ seq, epoch, body }: Entry, place: Place): void {
    const content = decode(body);
    if (content.kind === 'owner') {
      if (content.after.seq === place.seq && content.after.epoch === place.epoch) return;
      throw new Diverged(`entry ${seq} of the journal follows others than these files have`);
    }
    if (epoch !== place.epoch) throw new Diverged(`entry ${seq} of the journal is of an unknown owner`);
    if (content.kind === 'commits') for (const group of content.groups) this.#applyGroup(group, seq);
  }

  #applyGroup({ database: name, writes }: Group, seq: number): void {
    const one = this.#database(name);
    if (one.applied >= seq) return;
    if (!one.database.isTransaction) {
      one.database.exec('BEGIN IMMEDIATE');
      this.#changed.add(name);
    }
    for (const [query, ...bindings] of writes) {
      try {
        one.statements.run(query, bindings, () => {});
      } catch (error) {
        if (mayPass(error)) throw withCode(error, one.path);
        throw new Diverged(`entry ${seq} of the journal cannot be carried out on ${one.path}: ${error}`);
      }
    }
  }

  #database(name: string): OpenDatabase {
    const known = this.#open.get(name);
    if (known) {
      this.#open.delete(name);
      this.#open.set(name, known);
      return known;
    }
    if (!DATABASE.test(name)) throw new Diverged(`the journal names a database that none has: ${name}`);
    const path = join(this.#dataDir, name);
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    const database = openDatabase(path);
    useLog(database, LOG_BYTES);
    database.exec(`PRAGMA wal_autocheckpoint = ${CHECKPOINT_PAGES}`);
    const opened: OpenDatabase = {
      path,
      database,
      statements: new Statements(database),
      applied: storedApplied(database),
    };
    this.#open.set(name, opened);
    return opened;
  }

  /** Ends the transaction of each database that has one. */
  #each(end: (one: OpenDatabase) => unknown): void {
    for (const one of this.#open.values()) if (one.database.isTransaction) end(one);
  }

  #closeSome(): void {
    for (const [name, { database }] of this.#open) {
      if (this.#open.size <= MOST_OPEN) break;
      database.close();
      this.#open.delete(name);
    }
  }
}

/**
 * The number of the entry is in the two numbers that SQLite keeps in a database's header for its users, so that the
 * tables are the owner's.
 */
const HALF = 2 ** 31;

function storeApplied(database: DatabaseSync, seq: number): void {
  database.exec(`PRAGMA user_version = ${seq % HALF}; PRAGMA application_id = ${Math.floor(seq / HALF)}`);
}

function storedApplied(database: DatabaseSync): number {
  const read = (name: string) => Number(database.prepare(`PRAGMA ${name}`).get()![name]);
  return read('application_id') * HALF + read('user_version');
}

/** Has the databases of a folder begin at entry 0: those that have followed another journal would skip its entries. */
export async function forgetApplied(dataDir: string): Promise<void> {
  const names = await readdir(dataDir, { recursive: true });
  for (const name of names.filter((name) => DATABASE.test(name.replaceAll('\\', '/')))) {
    const database = openDatabase(join(dataDir, name));
    if (storedApplied(database) > 0) storeApplied(database, 0);
    database.close();
  }
}

/** Syncs the log of a database. Closing the database, which removes its log, has synced everything. */
async function syncLog(path: string): Promise<void> {
  const log = await open(`${path}-wal`).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null;
    throw error;
  });
  try {
    await log?.datasync();
  } finally {
    await log?.close();
  }
}
