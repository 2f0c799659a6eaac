import type { Sql } from '../durable/ports.ts';
import type { Heartbeat, Instance } from '../protocol/index.ts';
import type { LaunchRecord } from '../scheduler/launch.ts';
import {
  type DisplacedJobs,
  type Machine,
  type MachineMap,
  newMachine,
  type SessionShare,
} from '../scheduler/machines.ts';
import type { FleetEvent, Forgotten, QueueShare } from './rpc.ts';

/** The most characters of a heartbeat's error that are stored, so that all known workers fit into one answer. */
const LAST_WORDS_CHARACTERS = 4096;

/** A machine whose worker has been heard of. */
type Heard = Machine & { heard_at: number };

/**
 * The one map of machines: the scheduler's launches, the queue's connections and the workers' heartbeats, joined by
 * name. What concerns workers is on disk too, except their connections, which the queue reports again; launches have
 * rows of their own.
 */
export class Machines implements MachineMap {
  readonly #sql: Sql;
  readonly #byName: Map<string, Machine>;
  /** The number of machines whose worker has been heard of. */
  #heard: number;
  /** Ids of workers whose newest heartbeat is not stored yet. */
  readonly #unsaved = new Set<string>();

  constructor(sql: Sql) {
    this.#sql = sql;
    this.#byName = new Map(storedWorkers(sql).map((machine) => [machine.worker_id, machine]));
    this.#heard = this.#byName.size;
  }

  get byName(): ReadonlyMap<string, Machine> {
    return this.#byName;
  }

  /** The number of known workers. */
  get workerCount(): number {
    return this.#heard;
  }

  /** Yields the machines whose workers have been heard of. */
  *heard(): Generator<Heard> {
    for (const machine of this.#byName.values()) if (isHeard(machine)) yield machine;
  }

  /** Lists the machines whose workers have been heard of, by name. */
  list(): Machine[] {
    return [...this.heard()].sort((a, b) => (a.worker_id < b.worker_id ? -1 : 1));
  }

  /** Lists the connections of all workers that have one. */
  sessions(): SessionShare[] {
    return [...this.#byName.values()].flatMap(({ session }) => session ?? []);
  }

  attach(launch: LaunchRecord): void {
    const known = this.#byName.get(launch.name) ?? newMachine(launch.name);
    this.#put(
      launch.is_orphan ? { ...known, orphans: [...without(launch, known), launch] } : { ...known, launch },
    );
  }

  detach(launch: LaunchRecord): void {
    const known = this.#byName.get(launch.name);
    if (!known) return;
    if (launch.is_orphan) this.#put({ ...known, orphans: without(launch, known) });
    else if (known.launch?.id === launch.id) this.#put({ ...known, launch: null });
  }

  /** Takes a heartbeat, which the next `save` stores. @returns what was known before, and what is known now */
  heartbeat(beat: Heartbeat, at: number): { before: Machine | undefined; machine: Machine } {
    const id = beat.worker_id ?? beat.instance_id;
    const before = this.#byName.get(id);
    const error_message = beat.error_message?.slice(0, LAST_WORDS_CHARACTERS);
    const heartbeat = error_message === undefined ? beat : { ...beat, error_message };
    const config_id = before?.session?.config_id ?? beat.config_id ?? before?.config_id ?? null;
    const progress = furthest(before?.progress ?? null, beat, at);
    const machine = this.#set(id, at, { config_id, heartbeat, heartbeat_at: at, progress });
    this.#unsaved.add(id);
    return { before, machine };
  }

  /** Stores the newest heartbeats. */
  save(): void {
    for (const id of this.#unsaved) {
      const machine = this.#byName.get(id);
      if (machine) saveHeartbeat(this.#sql, machine);
    }
    this.#unsaved.clear();
  }

  /** Counts jobs that a worker could not finish. The counts are in memory alone. */
  displaced(id: string, { moved, repeated }: DisplacedJobs): void {
    const known = this.#byName.get(id);
    if (!known) return;
    const { displaced: before } = known;
    this.#put({ ...known, displaced: { moved: before.moved + moved, repeated: before.repeated + repeated } });
  }

  /** Stores what the queue reports of a worker. */
  record(event: FleetEvent): void {
    const { worker_id: id, config_id, at } = event;
    if (event.kind === 'connected') {
      if (this.#isKnown(id)) this.#set(id, at, {});
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
  share({ at, full, sessions, gone }: Omit<QueueShare, 'pools'>): void {
    if (full) {
      const there = new Set(sessions.map(({ worker_id }) => worker_id));
      for (const { worker_id: id, session } of this.#byName.values()) {
        if (session && !there.has(id)) this.#set(id, at, { session: null });
      }
    }
    for (const id of gone) if (this.#byName.get(id)?.session) this.#set(id, at, { session: null });
    for (const session of sessions) this.#connected(session, at);
  }

  /** Forgets a worker that has no connection. A later heartbeat makes it known again. */
  forget(id: string): Forgotten {
    if (!this.#isKnown(id)) return 'unknown';
    if (this.#byName.get(id)?.session) return 'connected';
    this.#forget(id);
    return 'forgotten';
  }

  /**
   * Forgets workers last heard of by `heardBy`, and beyond `most` those not heard of for the longest. @returns their
   * ids
   */
  bound(heardBy: number, most: number): string[] {
    let left = this.#heard;
    const oldestFirst = left > most ? [...this.heard()].sort(byHeardAt) : this.#byName.values();
    const forgotten: string[] = [];
    for (const { worker_id: id, heard_at } of oldestFirst) {
      if (heard_at === null || (heard_at > heardBy && left <= most)) continue;
      left -= 1;
      this.#forget(id);
      forgotten.push(id);
    }
    return forgotten;
  }

  /** Returns when the worker not heard of for the longest was heard of, epoch ms, or null if there is none. */
  longestUnheard(): number | null {
    let longest: number | null = null;
    for (const { heard_at } of this.#byName.values()) {
      if (heard_at !== null && (longest === null || heard_at < longest)) longest = heard_at;
    }
    return longest;
  }

  #isKnown(id: string): boolean {
    const machine = this.#byName.get(id);
    return machine !== undefined && isHeard(machine);
  }

  /** Forgets the worker; a launch or an orphan of its name stays. */
  #forget(id: string): void {
    const { launch, orphans } = this.#byName.get(id)!;
    this.#put({ ...newMachine(id), launch, orphans });
    this.#unsaved.delete(id);
    forgetWorker(this.#sql, id);
  }

  #connected(session: SessionShare, at: number): void {
    const { config_id } = session;
    this.#set(session.worker_id, at, { session, config_id, disconnected: null, was_running: null });
  }

  #disconnected(id: string, reason: string, at: number): void {
    const before = this.#byName.get(id);
    if (!before || !isHeard(before)) return;
    const was_running = before.session?.running ?? before.heartbeat?.running ?? null;
    this.#set(id, at, { session: null, disconnected: { at, reason }, was_running });
    saveDisconnect(this.#sql, id, { at, reason, was_running });
  }

  /** Notes what was heard of a worker. */
  #set(id: string, at: number, changes: Partial<Machine>): Machine {
    const before = this.#byName.get(id) ?? newMachine(id);
    const machine = { ...before, ...changes, heard_at: Math.max(before.heard_at ?? at, at) };
    this.#put(machine);
    return machine;
  }

  /** Replaces what is known under a name; where nothing is known any more, the name is forgotten. */
  #put(machine: Machine): void {
    const { worker_id: id, launch, orphans } = machine;
    const before = this.#byName.get(id);
    this.#heard += Number(isHeard(machine)) - Number(before !== undefined && isHeard(before));
    if (isHeard(machine) || launch || orphans.length > 0) this.#byName.set(id, machine);
    else this.#byName.delete(id);
  }
}

function isHeard(machine: Machine): machine is Heard {
  return machine.heard_at !== null;
}

function byHeardAt(a: Heard, b: Heard): number {
  return a.heard_at - b.heard_at;
}

function without({ id }: LaunchRecord, { orphans }: Machine): LaunchRecord[] {
  return orphans.filter((orphan) => orphan.id !== id);
}

/** Returns the furthest that a start has come: a new phase, or more progress in one, moves it. */
function furthest(before: Machine['progress'], beat: Heartbeat, at: number): Machine['progress'] {
  const { phase = null, progress: share = 0 } = beat;
  return before && before.phase === phase && before.share >= share ? before : { phase, share, at };
}

/** Stores the registration of a worker and clears its last disconnect. */
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

function saveHeartbeat(sql: Sql, worker: Machine): void {
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

function storedWorkers(sql: Sql): Machine[] {
  return sql.exec(`SELECT * FROM workers`).map((row) => {
    const heartbeat = row.heartbeat ? (JSON.parse(String(row.heartbeat)) as Heartbeat) : null;
    const heartbeat_at = row.heartbeat_at as number | null;
    return {
      ...newMachine(String(row.worker_id)),
      config_id: row.config_id as string | null,
      instance: row.instance ? (JSON.parse(String(row.instance)) as Instance) : null,
      heartbeat,
      heartbeat_at,
      progress: heartbeat && furthest(null, heartbeat, heartbeat_at ?? 0),
      disconnected:
        row.disconnected_at === null
          ? null
          : { at: Number(row.disconnected_at), reason: String(row.disconnect_reason) },
      was_running: row.was_running as number | null,
      heard_at: Number(row.heard_at),
    };
  });
}

function forgetWorker(sql: Sql, workerId: string): void {
  sql.exec(`DELETE FROM workers WHERE worker_id = ?`, workerId);
}
