import type { HostedObject, HostSocket, ObjectHost } from '../../src/durable/host.ts';
import type { SqlValue } from '../../src/durable/ports.ts';

/** What is said of a probe's peer when its socket opens, and what the probe keeps of each. */
export interface Peer {
  name: string;
}
export interface Kept {
  name: string;
  messages: number;
}

/** What may be asked of another probe. */
export interface ProbeCalls {
  keep(key: string): Promise<void>;
  addTo(list: string[]): Promise<string[]>;
}

/** What a peer may write to a probe's socket, as JSON. Binary messages come back with their bytes in reverse. */
export interface ProbeMessage {
  /** Is written, then sent back. */
  keep?: string;
  /** The probe sends back how many messages this socket has had, with the name of its peer. */
  count?: true;
  /** Numbers up to this are sent back, every second of them after a write. */
  burst?: number;
  /** Is sent to every socket of the probe. */
  all?: string;
  close?: [code: number, reason: string];
}

/** An object that does what it is asked, to see what its host makes of it. */
export class Probe implements HostedObject<Peer, Kept> {
  readonly pings = { ping: 'ping?', pong: 'pong.' };
  readonly #host: ObjectHost<Kept>;
  readonly #other: (queueId: string) => ProbeCalls;
  /** The callers that wait for the group that gathers now; null: no group gathers. */
  #group: ((size: number) => void)[] | null = null;
  #failingAlarms = 0;
  #fullBecause: string | null = null;
  /** Lives only as long as this instance. */
  readonly #born = crypto.randomUUID();

  constructor(host: ObjectHost<Kept>, other: (queueId: string) => ProbeCalls) {
    this.#host = host;
    this.#other = other;
    this.#makeTables();
  }

  #makeTables(): void {
    this.#run(`CREATE TABLE IF NOT EXISTS kept (key TEXT PRIMARY KEY)`);
    this.#run(`CREATE TABLE IF NOT EXISTS wakes (n INTEGER PRIMARY KEY, set_for INTEGER, at INTEGER)`);
    this.#run(`CREATE TABLE IF NOT EXISTS told (id TEXT)`);
    this.#run(`CREATE TABLE IF NOT EXISTS ends (name TEXT, code INTEGER)`);
  }

  #run(query: string, ...bindings: SqlValue[]) {
    return this.#host.sql.exec(query, ...bindings);
  }

  #write(key: string): void {
    this.#run(`INSERT OR REPLACE INTO kept (key) VALUES (?)`, key);
  }

  // --- Calls

  async who(): Promise<{ queueId: string; born: string }> {
    return { queueId: this.#host.queueId, born: this.#born };
  }

  async keep(key: string): Promise<void> {
    this.#write(key);
  }

  /** Writes, and leaves its thread to nobody else for a while after the answer. */
  async keepAndWork(key: string): Promise<void> {
    this.#write(key);
    this.#host.after(0, () => {
      // The loop counts turns, since the clock of workerd stands still meanwhile.
      for (let turn = 0; turn < 30_000_000; turn += 1) Math.sqrt(turn);
    });
  }

  async kept(): Promise<string[]> {
    return this.#run(`SELECT key FROM kept ORDER BY key`).map(({ key }) => String(key));
  }

  /** Two statements with nothing awaited between them. */
  async keepPair(key: string): Promise<void> {
    this.#write(`${key}/a`);
    this.#write(`${key}/b`);
  }

  /** Several values of every kind, as they are read back. */
  async values(): Promise<unknown[]> {
    const bytes = new Uint8Array([0, 255, 7]);
    const [row] = this.#run(
      `SELECT ? AS text, ? AS number, ? AS empty, length(?) AS bytes, ? AS large`,
      ...['text', 1.5, null, bytes, 2 ** 53 - 1],
    );
    return Object.values(row!);
  }

  /** Writes within a transaction that throws. */
  async undone(key: string): Promise<string> {
    try {
      return this.#host.transaction(() => {
        this.#write(key);
        throw new Error('undone');
      });
    } catch (error) {
      return (error as Error).message;
    }
  }

  async fail(message: string): Promise<void> {
    throw new Error(message);
  }

  async keepAndRestart(key: string): Promise<void> {
    this.#write(key);
    this.#host.restart('the probe was asked to');
  }

  /** Never answers by itself. */
  async hang(): Promise<never> {
    return await new Promise(() => {});
  }

  /** @returns how many such calls were written in one go */
  async gather(key: string): Promise<number> {
    this.#write(key);
    if (this.#group) return await new Promise((resolve) => this.#group!.push(resolve));
    const group: ((size: number) => void)[] = [];
    this.#group = group;
    await this.#host.gathered();
    this.#group = null;
    for (const resolve of group) resolve(group.length + 1);
    return group.length + 1;
  }

  /** Writes, and then asks another probe to. */
  async keepAndTell(other: string, key: string): Promise<void> {
    this.#write(key);
    await this.#other(other).keep(key);
  }

  /** @returns the list that another was given to add to, as it is here, and as that one answered */
  async lend(other: string): Promise<[mine: string[], theirs: string[]]> {
    const list = ['mine'];
    return [list, await this.#other(other).addTo(list)];
  }

  async addTo(list: string[]): Promise<string[]> {
    list.push('theirs');
    return list;
  }

  async keepLater(key: string, ms: number): Promise<void> {
    this.#host.after(ms, () => this.#write(key));
  }

  /** Sets a timer and ends before it fires. */
  async keepLaterAndRestart(key: string, ms: number): Promise<void> {
    await this.keepLater(key, ms);
    this.#host.restart('the probe was asked to');
  }

  async keepNeverLater(key: string, ms: number): Promise<void> {
    this.#host.after(ms, () => this.#write(key))();
  }

  async failInBackground(): Promise<void> {
    this.#host.background(Promise.reject(new Error('in the background')));
  }

  /** @returns how far the clock moved while this was asked, and whether it went back; ms */
  async clock(): Promise<{ went: number; behind: number }> {
    const before = this.#host.now();
    return { went: this.#host.now() - before, behind: before - this.#host.machineTime() };
  }

  async grow(bytes: number): Promise<number> {
    this.#run(`CREATE TABLE IF NOT EXISTS heavy (bytes BLOB)`);
    this.#run(`INSERT INTO heavy (bytes) VALUES (randomblob(?))`, bytes);
    return this.#host.databaseBytes();
  }

  /** @returns the size of the database, bytes */
  async clear(): Promise<number> {
    await this.#host.clear(() => this.#makeTables());
    return this.#host.databaseBytes();
  }

  async tables(): Promise<string[]> {
    const rows = this.#run(
      `SELECT name FROM sqlite_master WHERE type = 'table' AND name IN ('kept', 'heavy')`,
    );
    return rows.map(({ name }) => String(name));
  }

  /** @returns the time for which it is set, epoch ms */
  async wakeIn(ms: number): Promise<number> {
    this.#host.alarm.set(this.#host.now() + ms);
    return this.#host.alarm.get()!;
  }

  /** The alarm tells another probe. */
  async wakeAndTell(other: string, ms: number): Promise<number> {
    this.#run(`INSERT INTO told (id) VALUES (?)`, other);
    return await this.wakeIn(ms);
  }

  /** Sets the alarm and takes it back. */
  async wakeNever(ms: number): Promise<void> {
    await this.wakeIn(ms);
    this.#host.alarm.clear();
  }

  /** The next alarms throw. */
  async failWakes(count: number): Promise<void> {
    this.#failingAlarms = count;
  }

  /** The times for which alarms were set that have fired, epoch ms. */
  async wakes(): Promise<{ fired: (number | null)[]; next: number | null }> {
    const fired = this.#run(`SELECT set_for FROM wakes ORDER BY n`).map(({ set_for }) => set_for as number);
    return { fired, next: this.#host.alarm.get() };
  }

  async takeNoMore(because: string | null): Promise<void> {
    this.#fullBecause = because;
  }

  /** Names of the peers of open sockets. */
  async peers(): Promise<string[]> {
    return this.#host.sockets().map((socket) => socket.load().name);
  }

  /** Returns the times of each peer's last ping, epoch ms. */
  async pinged(): Promise<number[]> {
    return this.#host.sockets().map((socket) => socket.pingedAt());
  }

  /** Peers that have left, with their codes. */
  async ends(): Promise<[string, number | null][]> {
    return this.#run(`SELECT name, code FROM ends`).map(({ name, code }) => [
      String(name),
      code as number | null,
    ]);
  }

  // --- What the host tells

  async alarm(setFor: number | null): Promise<void> {
    if (this.#failingAlarms > 0) {
      this.#failingAlarms -= 1;
      throw new Error('an alarm that fails');
    }
    this.#run(`INSERT INTO wakes (set_for, at) VALUES (?, ?)`, setFor, this.#host.now());
    for (const { id } of this.#run(`SELECT id FROM told`))
      await this.#other(String(id)).keep(this.#host.queueId);
  }

  mayOpen(): string | null {
    return this.#fullBecause;
  }

  opened(socket: HostSocket<Kept>, { name }: Peer): void {
    socket.save({ name, messages: 0 });
  }

  async message(socket: HostSocket<Kept>, message: string | Uint8Array<ArrayBuffer>): Promise<void> {
    const kept = socket.load();
    kept.messages += 1;
    socket.save(kept);
    if (typeof message !== 'string') return socket.send(Uint8Array.from(message).reverse());
    const { keep, count, burst, all, close } = JSON.parse(message) as ProbeMessage;
    if (keep !== undefined) {
      this.#write(keep);
      socket.send(keep);
    }
    if (count) socket.send(JSON.stringify(kept));
    for (let n = 0; n < (burst ?? 0); n += 1) {
      if (n % 2 === 1) this.#write(`burst ${n}`);
      socket.send(String(n));
    }
    if (all !== undefined) for (const each of this.#host.sockets()) each.send(all);
    if (close) socket.close(...close);
  }

  async closed(socket: HostSocket<Kept>, code: number | null): Promise<void> {
    this.#run(`INSERT INTO ends (name, code) VALUES (?, ?)`, socket.load().name, code);
  }
}

/** The calls of a probe that a test makes. */
export type ProbeCall = Exclude<keyof Probe, 'alarm' | 'mayOpen' | 'opened' | 'message' | 'closed' | 'pings'>;
