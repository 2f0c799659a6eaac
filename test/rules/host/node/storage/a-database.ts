import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach } from 'vitest';
import { ObjectDatabase } from '../../../../../src/host/node/storage/database.ts';
import type { ObjectStorage } from '../../../../../src/host/node/storage/storage.ts';

type Limits = Parameters<typeof ObjectDatabase.open>[2];

/** A database of an object in a folder of its own, made anew for each test, with a table `t`. */
export class ADatabase {
  folder!: string;
  path!: string;
  database!: ObjectDatabase;
  storage!: ObjectStorage;
  /** What the databases told their host. */
  told: unknown[] = [];
  #opened: ObjectDatabase[] = [];

  /** To be called outside of tests. */
  constructor() {
    beforeEach(async () => {
      this.told = [];
      this.folder = await mkdtemp(join(tmpdir(), 'storage-'));
      await this.use(join(this.folder, 'data', 'a%2Fb', 'queue.sqlite'));
      this.makeTable();
      await this.database.synced();
    });
    afterEach(async () => {
      await this.close();
      await rm(this.folder, { recursive: true, force: true });
    });
  }

  /** Opens one that becomes the database of this test, in place of the one before. */
  async use(path: string, limits?: Limits): Promise<void> {
    await this.close();
    this.path = path;
    this.database = await this.open(path, limits);
    this.storage = this.database.begin();
  }

  /** Opens another one. */
  async open(path: string, limits?: Limits): Promise<ObjectDatabase> {
    const ports = {
      fatal: ({ message }: Error) => this.told.push({ fatal: message }),
      lost: ({ message }: Error) => this.told.push({ lost: message }),
      alarmStored: (alarm: number | null) => this.told.push({ alarm }),
      log: (...line: unknown[]) => this.told.push({ log: line }),
    };
    const database = await ObjectDatabase.open(path, ports, limits);
    this.#opened.push(database);
    return database;
  }

  makeTable(): void {
    this.storage.sql.exec('CREATE TABLE t (n INTEGER PRIMARY KEY, text TEXT, bytes BLOB)');
  }

  put(n: number, text = ''): void {
    this.storage.sql.exec('INSERT INTO t (n, text) VALUES (?, ?)', n, text);
  }

  all(of = this.storage): unknown[] {
    return of.sql.exec('SELECT n FROM t ORDER BY n').map(({ n }) => n);
  }

  /** What another connection sees: what is committed. */
  committed(): unknown[] {
    const other = new DatabaseSync(this.path, { readOnly: true });
    const found = other.prepare('SELECT n FROM t ORDER BY n').all();
    other.close();
    return found.map(({ n }) => n);
  }

  async close(): Promise<void> {
    await Promise.all(this.#opened.splice(0).map((one) => one.close()));
  }
}
