import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Claim, Follower } from '../../src/host/node/journal/follower.ts';
import type { Journal } from '../../src/host/node/journal/journal.ts';
import { Owner } from '../../src/host/node/journal/owner.ts';
import { ObjectDatabase } from '../../src/host/node/storage/database.ts';
import type { ObjectStorage } from '../../src/host/node/storage/storage.ts';
import { dumpDatabases } from './database-dump.ts';

/** A database that an owner writes. */
interface WrittenDatabase {
  database: ObjectDatabase;
  storage: ObjectStorage;
}

/** A process of a test that follows a journal with a state folder of its own, and may become the owner. */
export class JournalMember {
  readonly stateDir: string;
  readonly journal: Journal;
  readonly told: unknown[] = [];
  follower: Follower | null = null;
  owner: Owner | null = null;
  readonly #databases = new Map<string, WrittenDatabase>();

  private constructor(stateDir: string, journal: Journal) {
    this.stateDir = stateDir;
    this.journal = journal;
  }

  static async make(journal: Journal): Promise<JournalMember> {
    return new JournalMember(await mkdtemp(join(tmpdir(), 'member-')), journal);
  }

  /** Another process on the same folder. */
  again(journal: Journal): JournalMember {
    return new JournalMember(this.stateDir, journal);
  }

  async follow(): Promise<Follower> {
    this.follower = await Follower.open({ journal: this.journal, stateDir: this.stateDir, log: this.#log });
    await this.follower.catchUp();
    return this.follower;
  }

  /** Becomes the owner, without asking for the lease of another one. @returns null if another one was faster */
  async own(): Promise<Owner | null> {
    const follower = this.follower ?? (await this.follow());
    const claim = await follower.claim('http://member');
    return claim && this.begin(claim);
  }

  begin(claim: Claim): Owner {
    this.follower = null;
    this.owner = new Owner({ journal: this.journal, stateDir: this.stateDir, claim, log: this.#log });
    return this.owner;
  }

  /** Opens a database of the owner, or returns the open one. */
  async database(name = 'a/queue.sqlite'): Promise<WrittenDatabase> {
    const known = this.#databases.get(name);
    if (known) return known;
    const database = await ObjectDatabase.open(join(this.dataDir, name), {
      fatal: (error) => this.told.push({ fatal: error.message }),
      lost: (error) => this.told.push({ lost: error.message }),
      alarmStored: () => {},
      ...(this.owner && { commits: this.owner.commitsOf(name) }),
      log: this.#log,
    });
    const opened = { database, storage: database.begin() };
    this.#databases.set(name, opened);
    return opened;
  }

  /** Ends in order. */
  async end(): Promise<void> {
    await this.follower?.close();
    const closing = Promise.all(Array.from(this.#databases.values(), ({ database }) => database.close()));
    if (this.owner) await this.owner.end(closing.then(() => {}));
    else await closing;
    this.follower = null;
    this.owner = null;
    this.#databases.clear();
  }

  /** Ends as a killed process does, as far as the files and the journal can tell. */
  kill(): void {
    this.owner?.stop();
    this.owner = null;
    this.#databases.clear();
  }

  dump(): ReturnType<typeof dumpDatabases> {
    return dumpDatabases(this.dataDir);
  }

  get dataDir(): string {
    return join(this.stateDir, 'data');
  }

  async remove(): Promise<void> {
    await rm(this.stateDir, { recursive: true, force: true });
  }

  readonly #log = (level: string, message: string, fields?: object) => {
    this.told.push({ level, message, ...fields });
  };
}
