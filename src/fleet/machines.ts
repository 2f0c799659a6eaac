import type { Sql } from '../durable/ports.ts';
import type { Heartbeat, Instance } from '../protocol/index.ts';
import type { FleetEvent, Forgotten, KnownWorker, QueueShare, SessionShare } from './rpc.ts';

/** The most characters of a heartbeat's error that are stored, so that all known workers fit into one answer. */
const LAST_WORDS_CHARACTERS = 4096;

/**
 * Every known worker: in memory, and on disk but for its connection, which the queue reports again. What is known of a
 * worker is an immutable value: a change makes a new one.
 */
export class KnownWorkers {
  readonly #sql: Sql;
  readonly #byId: Map<string, KnownWorker>;
  /** Ids of workers whose newest heartbeat is not stored yet. */
  readonly #unsaved = new Set<string>();

  constructor(sql: Sql) {
    this.#sql = sql;
    this.#byId = new Map(
      storedWorkers(sql).map((worker) => [worker.worker_id, { ...worker, session: null }]),
    );
  }

  get size(): number {
    return this.#byId.size;
  }

  all(): Iterable<KnownWorker> {
    return this.#byId.values();
  }

  /** Lists all workers by their ids. */
  list(): KnownWorker[] {
    return [...this.#byId.values()].sort((a, b) => (a.worker_id < b.worker_id ? -1 : 1));
  }

  /** Lists the connections of all workers that have one. */
  sessions(): SessionShare[] {
    return [...this.#byId.values()].flatMap(({ session }) => session ?? []);
  }

  /** Takes a heartbeat, which the next `save` stores. @returns what was known before, and is known now */
  heartbeat(beat: Heartbeat, at: number): { before: KnownWorker | undefined; worker: KnownWorker } {
    const id = beat.worker_id ?? beat.instance_id;
    const before = this.#byId.get(id);
    const error_message = beat.error_message?.slice(0, LAST_WORDS_CHARACTERS);
    const heartbeat = error_message === undefined ? beat : { ...beat, error_message };
    const config_id = before?.session?.config_id ?? beat.config_id ?? before?.config_id ?? null;
    const worker = this.#set(id, at, { config_id, heartbeat, heartbeat_at: at });
    this.#unsaved.add(id);
    return { before, worker };
  }

  /** Stores the newest heartbeats. */
  save(): void {
    for (const id of this.#unsaved) {
      const worker = this.#byId.get(id);
      if (worker) saveHeartbeat(this.#sql, worker);
    }
    this.#unsaved.clear();
  }

  /** Stores what the queue reports of a worker. */
  record(event: FleetEvent): void {
    const { worker_id: id, config_id, at } = event;
    if (event.kind === 'connected') {
      if (this.#byId.has(id)) this.#set(id, at, {});
      touchWorker(this.#sql, id, at);
    } else if (event.kind === 'disconnected') {
      this.#disconnected(id, event.reason, at);
    } else {
      const { model_cards: _cards, ...rest } = event.instance ?? {};
      const instance = event.instance && (rest as Instance);
      this.#set(id, at, { config_id, instance, disconnected: null, was_running: null });
      saveInstance(this.#sql, event, instance, at);
    }
  }

  /** Takes the connections that the queue reports. They are kept in memory only. */
  share({ at, full, sessions, gone }: QueueShare): void {
    const there = new Set(sessions.map(({ worker_id }) => worker_id));
    if (full) {
      for (const { worker_id: id, session } of this.#byId.values()) {
        if (session && !there.has(id)) this.#set(id, at, { session: null });
      }
    }
    for (const id of gone) if (this.#byId.get(id)?.session) this.#set(id, at, { session: null });
    for (const session of sessions) this.#connected(session, at);
  }

  /** Forgets a worker that has no connection. A later heartbeat makes it known again. */
  forget(id: string): Forgotten {
    const worker = this.#byId.get(id);
    if (!worker) return 'unknown';
    if (worker.session) return 'connected';
    this.#remove(id);
    return 'forgotten';
  }

  /** Forgets workers last heard of by then, and beyond `most` those not heard of for the longest. @returns their ids */
  bound(heardBy: number, most: number): string[] {
    const oldestFirst = this.#byId.size > most ? [...this.#byId.values()].sort(byHeardAt) : this.all();
    let left = this.#byId.size;
    const forgotten: string[] = [];
    for (const { worker_id: id, heard_at } of oldestFirst) {
      if (heard_at > heardBy && left <= most) continue;
      left -= 1;
      this.#remove(id);
      forgotten.push(id);
    }
    return forgotten;
  }

  /** Returns when the worker not heard of for the longest was heard of, epoch ms, or null if there is none. */
  longestUnheard(): number | null {
    let longest: number | null = null;
    for (const { heard_at } of this.#byId.values()) longest = Math.min(longest ?? heard_at, heard_at);
    return longest;
  }

  #remove(id: string): void {
    this.#byId.delete(id);
    this.#unsaved.delete(id);
    forgetWorker(this.#sql, id);
  }

  #connected(session: SessionShare, at: number): void {
    const { config_id } = session;
    this.#set(session.worker_id, at, { session, config_id, disconnected: null, was_running: null });
  }

  #disconnected(id: string, reason: string, at: number): void {
    const before = this.#byId.get(id);
    if (!before) return;
    const was_running = before.session?.running ?? before.heartbeat?.running ?? null;
    this.#set(id, at, { session: null, disconnected: { at, reason }, was_running });
    saveDisconnect(this.#sql, id, { at, reason, was_running });
  }

  #set(worker_id: string, at: number, changes: Partial<KnownWorker>): KnownWorker {
    const before = this.#byId.get(worker_id) ?? {
      worker_id,
      config_id: null,
      instance: null,
      heartbeat: null,
      heartbeat_at: null,
      disconnected: null,
      was_running: null,
      session: null,
      heard_at: at,
    };
    const worker = { ...before, heard_at: Math.max(before.heard_at, at), ...changes };
    this.#byId.set(worker_id, worker);
    return worker;
  }
}

function byHeardAt(a: KnownWorker, b: KnownWorker): number {
  return a.heard_at - b.heard_at;
}

/** Every statement on what is stored of workers. Nothing here decides. All times in epoch ms. */

/** All that is known of a worker but its connection. */
type StoredWorker = Omit<KnownWorker, 'session'>;

/** Stores the registration of a worker, whose last disconnect is history. */
function saveInstance(
  sql: Sql,
  worker: { worker_id: string; config_id: string },
  instance: Instance | null,
  at: number,
): void {
  sql.exec(
    `INSERT INTO workers (worker_id, config_id, instance, heard_at) VALUES (?, ?, ?, ?)
     ON CONFLICT (worker_id) DO UPDATE SET config_id = excluded.config_id, instance = excluded.instance,
       disconnected_at = NULL, disconnect_reason = NULL, was_running = NULL,
       heard_at = max(heard_at, excluded.heard_at)`,
    worker.worker_id,
    worker.config_id,
    instance ? JSON.stringify(instance) : null,
    at,
  );
}

function saveHeartbeat(sql: Sql, worker: StoredWorker): void {
  sql.exec(
    `INSERT INTO workers (worker_id, config_id, heartbeat, heartbeat_at, heard_at) VALUES (?, ?, ?, ?, ?)
     ON CONFLICT (worker_id) DO UPDATE SET config_id = excluded.config_id, heartbeat = excluded.heartbeat,
       heartbeat_at = excluded.heartbeat_at, heard_at = max(heard_at, excluded.heard_at)`,
    worker.worker_id,
    worker.config_id,
    JSON.stringify(worker.heartbeat),
    worker.heartbeat_at,
    worker.heard_at,
  );
}

/** Notes that a worker is connected, or was until now. */
function touchWorker(sql: Sql, workerId: string, at: number): void {
  sql.exec(`UPDATE workers SET heard_at = max(heard_at, ?) WHERE worker_id = ?`, at, workerId);
}

function saveDisconnect(
  sql: Sql,
  workerId: string,
  { at, reason, was_running }: { at: number; reason: string; was_running: number | null },
): void {
  sql.exec(
    `UPDATE workers SET disconnected_at = ?, disconnect_reason = ?, was_running = ?, heard_at = max(heard_at, ?)
     WHERE worker_id = ?`,
    at,
    reason,
    was_running,
    at,
    workerId,
  );
}

function storedWorkers(sql: Sql): StoredWorker[] {
  return sql.exec(`SELECT * FROM workers`).map((row) => ({
    worker_id: String(row.worker_id),
    config_id: row.config_id as string | null,
    instance: row.instance ? (JSON.parse(String(row.instance)) as Instance) : null,
    heartbeat: row.heartbeat ? (JSON.parse(String(row.heartbeat)) as Heartbeat) : null,
    heartbeat_at: row.heartbeat_at as number | null,
    disconnected:
      row.disconnected_at === null
        ? null
        : { at: Number(row.disconnected_at), reason: String(row.disconnect_reason) },
    was_running: row.was_running as number | null,
    heard_at: Number(row.heard_at),
  }));
}

function forgetWorker(sql: Sql, workerId: string): void {
  sql.exec(`DELETE FROM workers WHERE worker_id = ?`, workerId);
}
