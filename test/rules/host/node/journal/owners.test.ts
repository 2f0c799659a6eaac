import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { JournalMember } from '../../../../support/journal-member.ts';
import { JournalServer, type MemoryJournal, ServerAway } from '../../../../support/memory-journal.ts';
import { Random } from '../../../../support/random.ts';

/**
 * Processes that follow, become owners at any moment, are killed, stand still, and lose answers, by chance. No lease
 * keeps anybody from anything here, as if every clock were wrong: what was acknowledged is kept all the same.
 */
const SEEDS = Number(process.env.JOURNAL_SEEDS ?? 12);
const STEPS = 120;
/** A world goes on until this much is acknowledged: in how many steps depends on the disk too. */
const LEAST_ACKNOWLEDGED = 6;
const MOST_STEPS = 10 * STEPS;
const DATABASES = ['a/queue.sqlite', 'a/fleet.sqlite', '%41/queue.sqlite'];

for (let seed = 1; seed <= SEEDS; seed += 1) {
  it(`owners of a journal lose nothing that was acknowledged: seed ${seed}`, async () => {
    const world = new World(seed);
    try {
      await world.run();
    } finally {
      await world.remove();
    }
  });
}

interface Process {
  member: JournalMember;
  state: 'follows' | 'owns';
  /** Lets calls go on that are held back; null: none are. */
  goOn: (() => void) | null;
}

class World {
  readonly #random: Random;
  readonly #server = new JournalServer();
  readonly #processes: Process[] = [];
  readonly #folders: JournalMember[] = [];
  readonly #acknowledged: number[] = [];
  #next = 1;
  #before = 0;

  constructor(seed: number) {
    this.#random = new Random(seed, 'journal');
  }

  async run(): Promise<void> {
    const isShort = () => this.#acknowledged.length < LEAST_ACKNOWLEDGED;
    for (let step = 0; step < STEPS || (isShort() && step < MOST_STEPS); step += 1) await this.#step();
    for (const { member, goOn } of this.#processes) {
      goOn?.();
      (member.journal as MemoryJournal).faults.isAway = false;
    }
    // Owners go on with what they can still store, and are then killed: one that stored something while the files are
    // compared would have acknowledged more than was read.
    await sleep(30);
    for (const { member, state } of this.#processes) if (state === 'owns') member.kill();
    // Timers of this process fire in their order, so appends that are under way end before this one.
    await sleep(30);
    const last = await JournalMember.make(this.#server.connect());
    this.#folders.push(last);
    await last.follow();
    await last.end();
    const rows = last.dump();
    const found = DATABASES.flatMap((name) => this.#checkedRows(rows[name]));
    expect(isShort()).toBe(false);
    expect(this.#acknowledged.filter((n) => !found.includes(n))).toEqual([]);
    expect(new Set(found).size).toBe(found.length);
    for (const { member, state } of this.#processes) {
      if (state !== 'follows') continue;
      await member.follower!.catchUp();
      expect(member.dump()).toEqual(rows);
    }
  }

  async remove(): Promise<void> {
    for (const { member } of this.#processes) member.kill();
    for (const member of this.#folders) await member.remove();
  }

  /** Returns the numbers in a database, whose rows must be as many as its counter says. */
  #checkedRows(tables: Record<string, unknown[]> | undefined): number[] {
    if (!tables) return [];
    const numbers = tables.t!.map((row) => Number((row as { n: bigint }).n));
    expect(tables.counter).toMatchObject([{ n: BigInt(numbers.length) }]);
    return numbers;
  }

  async #step(): Promise<void> {
    if (this.#processes.length < 3) return await this.#start();
    const one = this.#processes[this.#random.below(this.#processes.length)]!;
    const chance = this.#random.next();
    // What stands still does nothing until it goes on.
    if (one.goOn !== null) {
      if (chance < 0.4) this.#resume(one);
      return;
    }
    if (one.state === 'owns') {
      if (chance < 0.6) return await this.#write(one);
      if (chance < 0.7) return this.#hold(one);
      if (chance < 0.78) return this.#kill(one);
      if (chance < 0.83) return await this.#end(one);
      if (chance < 0.88) return this.#blip(one);
      if (chance < 0.92) return await this.#snapshot(one, () => one.member.owner!.saveSnapshot());
      return await sleep(1);
    }
    if (chance < 0.35) return await one.member.follower!.catchUp();
    if (chance < 0.55) return await this.#claim(one);
    if (chance < 0.6) return this.#kill(one);
    if (chance < 0.65) return await this.#end(one);
    if (chance < 0.7) return await this.#snapshot(one, () => one.member.follower!.saveSnapshot());
    await sleep(1);
  }

  /** Starts a process, on a folder that is free or on a new one. */
  async #start(): Promise<void> {
    const inUse = new Set(this.#processes.map(({ member }) => member.stateDir));
    const free = this.#folders.filter(({ stateDir }) => !inUse.has(stateDir));
    const journal = this.#server.connect({
      appendFault: () =>
        this.#random.next() < 0.1 ? (this.#random.next() < 0.5 ? 'after' : 'before') : null,
      takesMs: () => (this.#random.next() < 0.2 ? 2 : 0),
    });
    const member =
      free.length > 0 && this.#random.next() < 0.8
        ? free[this.#random.below(free.length)]!.again(journal)
        : await JournalMember.make(journal);
    this.#folders.push(member);
    await member.follow();
    this.#processes.push({ member, state: 'follows', goOn: null });
  }

  async #claim(one: Process): Promise<void> {
    await one.member.follower!.catchUp();
    try {
      const owner = await one.member.own();
      if (owner === null) return;
      one.state = 'owns';
      void owner.lost.then(() => this.#kill(one));
    } catch {
      // Three appends without an answer: the process ends, as at a start.
      this.#kill(one);
    }
  }

  async #write(one: Process): Promise<void> {
    const name = DATABASES[this.#random.below(DATABASES.length)]!;
    const { database, storage } = await one.member.database(name);
    if (one.member.owner === null) return;
    const { sql } = storage;
    for (let writes = this.#random.int(1, 3); writes > 0; writes -= 1) {
      const n = this.#next++;
      storage.transaction(() => {
        sql.exec('CREATE TABLE IF NOT EXISTS t (n INTEGER PRIMARY KEY)');
        sql.exec('CREATE TABLE IF NOT EXISTS counter (id INTEGER PRIMARY KEY, n INTEGER)');
        sql.exec('INSERT INTO t (n) VALUES (?)', n);
        sql.exec('INSERT INTO counter VALUES (0, 1) ON CONFLICT DO UPDATE SET n = n + 1');
      });
      database.whenSynced(() => this.#acknowledged.push(n));
    }
    if (this.#random.next() < 0.5) await new Promise((resolve) => setImmediate(resolve));
    if (this.#random.next() < 0.3) await sleep(1);
  }

  #hold(one: Process): void {
    const { promise, resolve } = Promise.withResolvers<void>();
    (one.member.journal as MemoryJournal).faults.held = promise;
    one.goOn = resolve;
  }

  #resume(one: Process): void {
    (one.member.journal as MemoryJournal).faults.held = null;
    one.goOn?.();
    one.goOn = null;
  }

  #blip(one: Process): void {
    const { faults } = one.member.journal as MemoryJournal;
    faults.isAway = true;
    setTimeout(() => {
      faults.isAway = false;
    }, 3);
  }

  #kill(one: Process): void {
    const at = this.#processes.indexOf(one);
    if (at < 0) return;
    this.#processes.splice(at, 1);
    one.goOn?.();
    one.member.kill();
  }

  async #end(one: Process): Promise<void> {
    this.#processes.splice(this.#processes.indexOf(one), 1);
    await one.member.end();
  }

  async #snapshot(one: Process, save: () => Promise<{ seq: number }>): Promise<void> {
    const { journal, owner } = one.member;
    if (one.state === 'follows' && one.member.follower!.place.seq === 0) return;
    const lost = owner?.lost.then(() => null) ?? new Promise<null>(() => {});
    try {
      const saved = await Promise.race([save(), lost]);
      if (saved === null) return;
      await journal.trim(this.#before);
      this.#before = Math.max(this.#before, saved.seq);
    } catch (error) {
      // The next one is stored by the next process that is due.
      if (!(error instanceof ServerAway)) throw error;
    }
  }
}
