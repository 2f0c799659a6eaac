import { randomUUID } from 'node:crypto';
import { UserError } from '../../../process/index.ts';
import {
  CALL_MS,
  type Entry,
  type Journal,
  type Lease,
  type Place,
  READ_BYTES,
  type Snapshot,
  type SnapshotChunk,
  Taken,
} from './journal.ts';
import { isUnreachable, PostgresConnection, type Row } from './postgres-connection.ts';

/** The schema of the tables, unless the address names another one. */
const SCHEMA = 'worker_vllm';
const UNIQUE_VIOLATION = '23505';
/**
 * A condition that is always true, and bounds how long its statement waits for others. A statement of a connection that
 * was given up goes on for as long as a synchronous standby is away; those that then wait for it would be more and more.
 */
const BRIEFLY = `set_config('lock_timeout', '${CALL_MS - 1000}', true) <> ''`;
/**
 * A condition that is always true, and has the commit of its statement wait for the disk: somebody may have set
 * `synchronous_commit` to off since the server was checked.
 */
const KEPT = `set_config('synchronous_commit', replace(current_setting('synchronous_commit'), 'off', 'on'), true) <> ''`;

/**
 * A journal in tables of PostgreSQL. `journal` is only appended to, and cut at its beginning, so that an old snapshot
 * of some other program (a dump, an idle replication slot) slows nothing down.
 */
export class PostgresJournal implements Journal {
  readonly #address: string;
  readonly #schema: string;
  /** Carries what the owner and followers wait for. */
  readonly #entries: PostgresConnection;
  /** Carries renewals of the lease, which must not wait for a long append. */
  readonly #leases: PostgresConnection;
  /** Whether an append has failed, and may have been carried out. */
  #isUncertain = false;

  /** @throws UserError if the address is not one of PostgreSQL */
  constructor(address: string) {
    const { url, schema } = split(address);
    this.#address = url;
    this.#schema = schema;
    this.#entries = new PostgresConnection(url);
    this.#leases = new PostgresConnection(url);
  }

  async open(): Promise<void> {
    try {
      await this.#checkServer();
      await this.#makeTables();
    } catch (error) {
      if (error instanceof UserError || isUnreachable(error)) throw error;
      throw new UserError(
        `The journal's PostgreSQL server refuses its use: ${(error as Error).message}. ` +
          'Correct the address of the journal (QUEUE_JOURNAL or --journal), or the rights of its role, ' +
          `which needs the schema ${this.#schema} or the right to create it.`,
      );
    }
  }

  async last(): Promise<Place> {
    await this.#makeCertain();
    const [row] = await this.#ask('SELECT seq, epoch FROM $.journal ORDER BY seq DESC LIMIT 1');
    return row ? placeOf(row) : { seq: 0, epoch: 0 };
  }

  async append({ seq, epoch, body }: Entry): Promise<void> {
    // A second append at the same time waits for the first one's commit and then violates the primary key.
    const text = `INSERT INTO $.journal (seq, epoch, body) SELECT $1::bigint, $2::bigint, $3::bytea
      WHERE ${BRIEFLY} AND ${KEPT} AND $1::bigint = (SELECT coalesce(max(seq), 0) FROM $.journal) + 1 RETURNING seq`;
    let rows: Row[];
    try {
      rows = await this.#ask(text, [seq, epoch, bufferOf(body)]);
    } catch (error) {
      if ((error as { code?: string }).code === UNIQUE_VIOLATION) throw new Taken(seq);
      this.#isUncertain = true;
      throw error;
    }
    if (rows.length === 0) throw new Taken(seq);
    this.#isUncertain = false;
  }

  async read(afterSeq: number, most: number): Promise<Entry[]> {
    await this.#makeCertain();
    const rows = await this.#ask(
      `SELECT seq, epoch, body FROM (
         SELECT *, sum(octet_length(body)) OVER (ORDER BY seq) - octet_length(body) AS before
         FROM (SELECT * FROM $.journal WHERE seq > $1 ORDER BY seq LIMIT $2) AS next
       ) AS measured WHERE before < ${READ_BYTES} ORDER BY seq`,
      [afterSeq, most],
    );
    return rows.map((row) => ({ ...placeOf(row), body: row.body as Buffer }));
  }

  async renewLease({ epoch, address }: Lease, ttlMs: number): Promise<boolean> {
    const text = `UPDATE $.lease SET epoch = $1, address = $2, until = clock_timestamp() + $3 * interval '1 ms'
      WHERE ${BRIEFLY} AND epoch <= $1 RETURNING epoch`;
    const rows = await this.#leases.query(this.#named(text), [epoch, address, ttlMs]);
    return rows.length > 0;
  }

  async lease(): Promise<(Lease & { isAlive: boolean }) | null> {
    const text = 'SELECT epoch, address, until > clock_timestamp() AS alive FROM $.lease WHERE epoch > 0';
    const [row] = await this.#leases.query(this.#named(text));
    if (!row) return null;
    return { epoch: Number(row.epoch), address: row.address as string, isAlive: row.alive as boolean };
  }

  async saveSnapshot({ seq, chunks }: Snapshot): Promise<void> {
    await this.#apart(async (connection) => {
      const id = randomUUID();
      let part = 0;
      await connection.query('BEGIN');
      for await (const { name, bytes } of chunks) {
        const text = this.#named(
          'INSERT INTO $.snapshot_part (id, part, name, bytes) VALUES ($1, $2, $3, $4)',
        );
        await connection.query(text, [id, part, name, bufferOf(bytes)]);
        part += 1;
      }
      const text = `INSERT INTO $.snapshot (seq, id, parts) VALUES ($1, $2, $3)
        ON CONFLICT (seq) DO NOTHING`;
      await connection.query(this.#named(text), [seq, id, part]);
      await this.#removeUnnamedParts(connection);
      await connection.query('COMMIT');
    });
  }

  async newestSnapshot(): Promise<Snapshot | null> {
    const [row] = await this.#ask('SELECT seq, id, parts FROM $.snapshot ORDER BY seq DESC LIMIT 1');
    if (!row) return null;
    return { seq: Number(row.seq), chunks: this.#parts(row.id as string, Number(row.parts)) };
  }

  async trim(beforeSeq: number): Promise<void> {
    await this.#apart(async (connection) => {
      await connection.query('BEGIN');
      await connection.query(this.#named('DELETE FROM $.journal WHERE seq < $1'), [beforeSeq]);
      await connection.query(this.#named('DELETE FROM $.snapshot WHERE seq < $1'), [beforeSeq]);
      await this.#removeUnnamedParts(connection);
      await connection.query('COMMIT');
    });
  }

  async close(): Promise<void> {
    await Promise.all([this.#entries.close(), this.#leases.close()]);
  }

  async #checkServer(): Promise<void> {
    const [row] = await this.#ask(
      `SELECT current_setting('synchronous_commit') AS commits, current_setting('fsync') AS syncs,
         pg_is_in_recovery() AS standby`,
    );
    const setting = row?.commits === 'off' ? 'synchronous_commit' : row?.syncs === 'off' ? 'fsync' : null;
    if (setting)
      throw new UserError(
        `The journal's PostgreSQL server has ${setting} = off: it acknowledges what a crash of it would lose. ` +
          `Set ${setting} to on for the role, the database or the server.`,
      );
    // During a failover an address may lead to a standby that is about to become the primary.
    if (row?.standby) throw new Error('the PostgreSQL server is a standby, which takes no writes');
  }

  /** Makes what is missing. A role without the right to create tables finds those that others made. */
  async #makeTables(): Promise<void> {
    await this.#apart(async (connection) => {
      await connection.query('BEGIN');
      // The lock lets a process that starts at the same time find the tables of this one.
      await connection.query('SELECT pg_advisory_xact_lock(hashtext($1))', [`worker-vllm ${this.#schema}`]);
      const [found] = await connection.query(
        'SELECT to_regnamespace($1) AS schema, to_regclass($2) AS tables',
        [this.#schema, `${this.#schema}.lease`],
      );
      if (found?.schema === null) await connection.query(`CREATE SCHEMA ${this.#schema}`);
      if (found?.tables === null) for (const text of TABLES) await connection.query(this.#named(text));
      await connection.query('COMMIT');
    });
  }

  /**
   * Makes sure that an entry of an append without an answer is where the server keeps what it acknowledges, before
   * anybody is told that it is there: a server that was restarted shows what its synchronous standby may not have yet.
   * Its log is replicated in order, so a later commit is acknowledged only after that entry.
   */
  async #makeCertain(): Promise<void> {
    if (!this.#isUncertain) return;
    await this.#ask(`UPDATE $.lease SET epoch = epoch WHERE ${BRIEFLY} AND ${KEPT}`);
    this.#isUncertain = false;
  }

  async #removeUnnamedParts(connection: PostgresConnection): Promise<void> {
    await connection.query(
      this.#named('DELETE FROM $.snapshot_part WHERE id NOT IN (SELECT id FROM $.snapshot)'),
    );
  }

  async *#parts(id: string, parts: number): AsyncGenerator<SnapshotChunk> {
    for (let part = 0; part < parts; part += 1) {
      const text = 'SELECT name, bytes FROM $.snapshot_part WHERE id = $1 AND part = $2';
      const [row] = await this.#ask(text, [id, part]);
      if (!row) throw new Error('the snapshot was removed while it was read');
      yield { name: row.name as string, bytes: row.bytes as Buffer };
    }
  }

  /** Does what may take long on a connection of its own, which undoes it if it fails. */
  async #apart(work: (connection: PostgresConnection) => Promise<void>): Promise<void> {
    const connection = new PostgresConnection(this.#address, { limitMs: null });
    try {
      await work(connection);
    } finally {
      await connection.close();
    }
  }

  #ask(text: string, values: unknown[] = []): Promise<Row[]> {
    return this.#entries.query(this.#named(text), values);
  }

  /** Puts the schema into a statement. */
  #named(text: string): string {
    return text.replaceAll('$.', `${this.#schema}.`);
  }
}

const TABLES = [
  `CREATE TABLE $.journal (seq bigint PRIMARY KEY, epoch bigint NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp(), body bytea NOT NULL)`,
  'CREATE TABLE $.lease (epoch bigint NOT NULL, address text NOT NULL, until timestamptz NOT NULL)',
  `INSERT INTO $.lease VALUES (0, '', '-infinity')`,
  'CREATE TABLE $.snapshot (seq bigint PRIMARY KEY, id text NOT NULL, parts integer NOT NULL)',
  `CREATE TABLE $.snapshot_part (id text, part integer, name text NOT NULL, bytes bytea NOT NULL,
    PRIMARY KEY (id, part))`,
];

function placeOf({ seq, epoch }: Row): Place {
  return { seq: Number(seq), epoch: Number(epoch) };
}

/** Returns a view of bytes as the client takes them. */
function bufferOf({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}

/** Takes the schema out of an address, which the client does not know. */
function split(address: string): { url: string; schema: string } {
  const [place = '', query = ''] = address.split('?', 2);
  const parameters = new URLSearchParams(query);
  const schema = parameters.get('schema') ?? SCHEMA;
  if (!/^[a-z_][a-z0-9_]{0,62}$/.test(schema))
    throw new UserError(
      'The schema in the address of the journal (QUEUE_JOURNAL or --journal) has to be of lowercase letters, ' +
        'digits and underscores.',
    );
  parameters.delete('schema');
  // `sslmode` has the meaning that it has for PostgreSQL's own programs.
  parameters.set('uselibpqcompat', 'true');
  return { url: `${place}?${parameters}`, schema };
}
