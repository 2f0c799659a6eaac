import type { HostedObject, ObjectHost } from '../../../durable/host.ts';
import { createTables, type Sql } from '../../../durable/ports.ts';
import type { Erased, KeptHour, KeptPage, KeptRecord, KeptSummary, KeptWanted } from '../types.ts';

const HOUR_MS = 3_600_000;
/** A page of lines ends with the one that reaches this many bytes. */
const PAGE_BYTES = 1024 * 1024;
/** The most records that one commit deletes, so that other work gets its turn. */
const BITE = 500;
/**
 * An erasure holds for this long, ms: a request that still ran when its tenant was erased, or whose record was
 * on its way, is not kept after that. No request runs for longer.
 */
const ERASED_MS = 24 * HOUR_MS;

const TABLES = [
  `CREATE TABLE kept_requests (
     seq INTEGER PRIMARY KEY AUTOINCREMENT,
     job_id TEXT NOT NULL,
     request_id TEXT NOT NULL,
     response_id TEXT,
     tenant TEXT,
     started_at INTEGER NOT NULL,
     ended_at INTEGER NOT NULL,
     bytes INTEGER NOT NULL,
     line TEXT NOT NULL
   )`,
  // Callers choose ids of jobs, and one tenant must not replace what another one's record says.
  `CREATE UNIQUE INDEX kept_by_job ON kept_requests (job_id, ifnull(tenant, ''))`,
  `CREATE INDEX kept_by_request ON kept_requests (request_id)`,
  `CREATE INDEX kept_by_response ON kept_requests (response_id)`,
  `CREATE INDEX kept_by_tenant ON kept_requests (tenant, seq)`,
  `CREATE INDEX kept_by_end ON kept_requests (ended_at, bytes)`,
  `CREATE TABLE erased_requests (kind TEXT NOT NULL, name TEXT NOT NULL, at INTEGER NOT NULL, PRIMARY KEY (kind, name))`,
];

export interface KeptSettings {
  /** How long records are kept, ms from the end of their request. */
  retentionMs: number;
  /** The most bytes of all records together; the oldest go. */
  mostBytes: number;
}

/**
 * Keeps the records of requests of a queue id: a row each, in a database of its own, so that one can be erased where it
 * lies. The database overwrites what is deleted (`secure_delete`).
 */
export class KeptRequestsObject implements HostedObject {
  readonly #host: ObjectHost;
  readonly #sql: Sql;
  readonly #settings: KeptSettings;
  /** The bytes of all lines. */
  #bytes: number;

  constructor(host: ObjectHost, settings: KeptSettings) {
    this.#host = host;
    this.#sql = host.sql;
    this.#settings = settings;
    createTables(this.#sql, TABLES);
    this.#bytes = this.#sum();
    this.#arm();
  }

  /** Keeps a record; one of the same job and tenant is replaced, since a worker may report a result twice. */
  async add(record: KeptRecord): Promise<void> {
    if (this.#isErased(record)) return;
    const { job_id, request_id, response_id, tenant, started_at, ended_at, line } = record;
    const bytes = new TextEncoder().encode(line).byteLength + 1;
    const [before] = this.#sql.exec(
      `SELECT bytes FROM kept_requests WHERE job_id = ? AND ifnull(tenant, '') = ifnull(?, '')`,
      ...[job_id, tenant],
    );
    this.#sql.exec(
      `INSERT OR REPLACE INTO kept_requests (job_id, request_id, response_id, tenant, started_at, ended_at, bytes, line)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
      ...[job_id, request_id, response_id, tenant, started_at, ended_at, bytes, line],
    );
    this.#bytes += bytes - Number(before?.bytes ?? 0);
    this.#dropOldest();
    this.#arm();
  }

  /** Returns how much is kept, by the hours in which requests ended. */
  async summary(): Promise<KeptSummary> {
    const hours = this.#sql.exec(
      `SELECT ended_at - ended_at % ${HOUR_MS} AS hour, count(*) AS records, sum(bytes) AS bytes
       FROM kept_requests GROUP BY 1 ORDER BY 1`,
    ) as unknown as KeptHour[];
    const records = hours.reduce((sum, hour) => sum + hour.records, 0);
    return { hours, records, bytes: this.#bytes };
  }

  /** Returns lines in the order in which they were kept. */
  async page({ since, until, tenant, after }: KeptWanted): Promise<KeptPage> {
    const found = this.#sql.exec(
      `SELECT seq, bytes FROM kept_requests
       WHERE seq > ?1 AND (?2 IS NULL OR ended_at >= ?2) AND (?3 IS NULL OR ended_at < ?3)
         AND (?4 IS NULL OR tenant = ?4)
       ORDER BY seq LIMIT ${BITE}`,
      ...[after, since, until, tenant],
    );
    // Only the lines of this page are read: a line may be megabytes long, and all of a query are in memory at once.
    const ofPage: number[] = [];
    let bytes = 0;
    for (const row of found) {
      if (bytes >= PAGE_BYTES) break;
      ofPage.push(Number(row.seq));
      bytes += Number(row.bytes);
    }
    const lines = this.#sql
      .exec(
        `SELECT line FROM kept_requests WHERE seq IN (SELECT value FROM json_each(?)) ORDER BY seq`,
        JSON.stringify(ofPage),
      )
      .map(({ line }) => String(line));
    const isLast = ofPage.length === found.length && found.length < BITE;
    return { lines, next: isLast ? null : ofPage.at(-1)! };
  }

  /** Erases records. Those of requests that still run are not kept either. @returns how many records there were */
  async erase(what: Erased): Promise<number> {
    const [kind, name] = 'tenant' in what ? ['tenant', what.tenant] : ['id', what.id];
    const now = this.#host.now();
    this.#sql.exec(`DELETE FROM erased_requests WHERE at < ?`, now - ERASED_MS);
    this.#sql.exec(
      `INSERT OR REPLACE INTO erased_requests (kind, name, at) VALUES (?, ?, ?)`,
      kind,
      name,
      now,
    );
    const where = kind === 'tenant' ? `tenant = ?1` : `job_id = ?1 OR request_id = ?1 OR response_id = ?1`;
    let erased = 0;
    for (let gone = BITE; gone === BITE; ) {
      gone = this.#delete(`SELECT seq FROM kept_requests WHERE ${where} LIMIT ${BITE}`, name);
      erased += gone;
      await this.#host.gathered();
    }
    await this.#giveBack();
    return erased;
  }

  async alarm(): Promise<void> {
    this.#delete(
      `SELECT seq FROM kept_requests WHERE ended_at < ?1 ORDER BY ended_at LIMIT ${BITE}`,
      this.#host.now() - this.#settings.retentionMs,
    );
    this.#arm();
  }

  /** Whether the record's tenant was erased after the request came, or its id was erased. */
  #isErased({ job_id, request_id, response_id, tenant, started_at }: KeptRecord): boolean {
    const found = this.#sql.exec(
      `SELECT 1 FROM erased_requests WHERE kind = 'id' AND name IN (?, ?, ?)
       UNION ALL SELECT 1 FROM erased_requests WHERE kind = 'tenant' AND name = ? AND at >= ?`,
      ...[job_id, request_id, response_id, tenant, started_at],
    );
    return found.length > 0;
  }

  #dropOldest(): void {
    while (this.#bytes > this.#settings.mostBytes)
      if (this.#delete(`SELECT seq FROM kept_requests ORDER BY seq LIMIT ?1`, 1) === 0) return;
  }

  /** @param which a query of the numbers of records @returns how many were deleted */
  #delete(which: string, value: string | number): number {
    const gone = this.#sql.exec(`DELETE FROM kept_requests WHERE seq IN (${which}) RETURNING bytes`, value);
    for (const { bytes } of gone) this.#bytes -= Number(bytes);
    return gone.length;
  }

  /** Gives the disk back once nothing is kept. */
  async #giveBack(): Promise<void> {
    if (this.#sum() > 0) return this.#arm();
    const erased = this.#sql.exec(`SELECT kind, name, at FROM erased_requests`);
    await this.#host.clear(() => {
      createTables(this.#sql, TABLES);
      for (const { kind, name, at } of erased)
        this.#sql.exec(
          `INSERT INTO erased_requests (kind, name, at) VALUES (?, ?, ?)`,
          ...[String(kind), String(name), Number(at)],
        );
    });
    this.#bytes = 0;
  }

  #sum(): number {
    const [row] = this.#sql.exec(`SELECT coalesce(sum(bytes), 0) AS bytes FROM kept_requests`);
    return Number(row!.bytes);
  }

  /** Sets the alarm to the time at which the oldest record's time is over. */
  #arm(): void {
    const [row] = this.#sql.exec(`SELECT min(ended_at) AS oldest FROM kept_requests`);
    if (row!.oldest === null) return this.#host.alarm.clear();
    const at = Number(row!.oldest) + this.#settings.retentionMs + 1;
    if (this.#host.alarm.get() !== at) this.#host.alarm.set(at);
  }
}
