import { afterEach, beforeEach, expect } from 'vitest';
import { JournalMember } from './journal-member.ts';
import { JournalServer } from './memory-journal.ts';

/** The processes of a test that share a journal in memory; made anew for each test. */
export class JournalMembers {
  server!: JournalServer;
  all: JournalMember[] = [];

  /** To be called outside of tests. */
  constructor() {
    beforeEach(() => {
      this.server = new JournalServer();
      this.all = [];
    });
    afterEach(async () => {
      for (const member of this.all) {
        await member.end();
        await member.remove();
      }
    });
  }

  async member(): Promise<JournalMember> {
    const made = await JournalMember.make(this.server.connect());
    this.all.push(made);
    return made;
  }

  /** Another process on the folder of one that has ended. */
  again(before: JournalMember): JournalMember {
    const made = before.again(this.server.connect());
    this.all.splice(this.all.indexOf(before), 1, made);
    return made;
  }

  async owner(): Promise<JournalMember> {
    const made = await this.member();
    expect(await made.own()).not.toBeNull();
    return made;
  }
}

/** Writes a row as the owner, and waits until it is stored. */
export async function put(of: JournalMember, n: number, name?: string): Promise<void> {
  const { database, storage } = await of.database(name);
  storage.sql.exec('CREATE TABLE IF NOT EXISTS t (n INTEGER PRIMARY KEY, text TEXT)');
  storage.sql.exec('INSERT INTO t (n) VALUES (?)', n);
  await database.synced();
}

/** Returns the rows that `put` wrote. */
export function numbers(of: JournalMember, name = 'a/queue.sqlite'): unknown[] {
  return of.dump()[name]!.t!.map((row) => Number((row as { n: bigint }).n));
}
