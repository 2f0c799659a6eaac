import type { Alarm, Sql, SqlValue } from '../../durable/ports.ts';
import type { FleetEvent } from '../../fleet/rpc.ts';
import type { BrokenReason, QueueFrame } from '../../protocol/index.ts';
import type { Ending, StoredJob } from '../job.ts';
import type { WorkerToken } from '../rpc.ts';

export type { Row, Sql, SqlValue } from '../../durable/ports.ts';

/** The disk of the object, and the clock by which it is read. */
export interface Storage {
  sql: Sql;
  alarm: Alarm;
  /** Runs work that may fail on a full disk, and undoes its writes then. @returns why it failed; null if it did not */
  undoable(work: () => void): string | null;
  /** Returns epoch ms; in one life of the object they never go back. */
  now(): number;
}

/**
 * All I/O of the queue's rules. The object around them hands them the storage and sockets of its host; tests and the
 * simulation hand them node:sqlite and sockets of their own.
 */
export interface Ports extends Storage {
  /** Returns a number of 0..1 with 32 random bits, in production from a cryptographic source. */
  random(): number;
  /** Returns every open control socket, those from before a hibernation included. */
  connections(): Connection[];
  /**
   * Tells the relay of a worker that one of its streams is lost. Best effort.
   * @param where `any home`: the home of the stream is not known, and that in `stream` says nothing
   */
  breakStream(workerId: string, stream: number, reason: BrokenReason, where?: 'any home'): void;
  /** Closes the answer socket of a worker, which has to dial it anew. Best effort. */
  closeAnswers(workerId: string): void;
  /** Reports a worker's registration or end to the fleet object. Best effort: registrations report again. */
  tellFleet(event: FleetEvent): void;
  /** Tells filters that a stored job ended without success after a worker had it. Left out: none wants to know. */
  tellEnded?(job: StoredJob, ending: Exclude<Ending, { state: 'succeeded' }>): void;
  log(level: 'debug' | 'info' | 'warn' | 'error', message: string, fields?: Record<string, unknown>): void;
}

/** One control socket. Sends never throw: a socket that is gone swallows them. */
export interface Connection {
  readonly id: string;
  /** Scheme, host and port that the peer dialled; absent where that is not known. */
  readonly origin?: string;
  /** The token that the socket was dialled with; null or absent where no tokens are configured. */
  readonly token?: WorkerToken | null;
  /**
   * The price of the worker's machine, US dollars per hour; null or absent if no launcher of the scheduler reported
   * one.
   */
  readonly price_per_hour?: number | null;
  /** Returns the session, which survives hibernation; it has at most 16 KiB serialised. */
  load(): Session | null;
  /** Stores the session; null gives the connection up. */
  save(session: Session | null): void;
  /** Returns when the peer's last frame or ping came, epoch ms; the host answers pings by itself. */
  lastHeardMs(): number;
  send(frame: Exclude<QueueFrame, { type: 'job' }>): void;
  /** Sends a `job` frame, as text or in UTF-8; its payload is passed on unparsed. */
  sendJob(frame: string | Uint8Array<ArrayBuffer>): void;
  close(code: number, reason: string): void;
}

/** The facts about a worker that its registered connection remembers. */
export interface Session {
  session_id: string;
  worker_id: string;
  config_id: string;
  capacity: number;
  /** The price of the worker's machine, US dollars per hour; null if that is not known. */
  price_per_hour: number | null;
  /** Whether the worker speaks the extensions of the protocol; a base worker does not. */
  extended: boolean;
  paused: boolean;
  draining: boolean;
  /** Whether the worker drains because its machine is being taken away; left out: it has not said so. */
  preempted?: boolean;
  boot_id: string | null;
  /** The machine that the worker runs on; null if the worker does not report it. */
  machine_id: string | null;
  /** The version of what the worker was started with; null, or left out by older queues: it names none. */
  version?: string | null;
  /**
   * The identity of the worker's model, by which answers are moved between equals alone; null or left out: it does not
   * say.
   */
  model_identity?: string | null;
  /** The time when the worker connected, epoch ms. */
  connected_at: number;
}

/** Returns the rows of a statement, typed by its columns: the one place that takes such a type on trust. */
export function rows<T>(sql: Sql, query: string, ...bindings: SqlValue[]): T[] {
  return sql.exec(query, ...bindings) as unknown as T[];
}

/** Returns the first row; null if there is none. */
export function row<T>(sql: Sql, query: string, ...bindings: SqlValue[]): T | null {
  return rows<T>(sql, query, ...bindings)[0] ?? null;
}

/** Sets the alarm for this time unless it is set earlier: a move of the alarm costs a row. */
export function due({ alarm }: Pick<Storage, 'alarm'>, atMs: number): void {
  const armed = alarm.get();
  if (armed === null || armed > atMs) alarm.set(atMs);
}
