import type { Alarm, Sql } from '../../durable/ports.ts';
import type { FleetEvent } from '../../fleet/rpc.ts';
import type { BrokenReason, QueueFrame } from '../../protocol/index.ts';

export type { Row, Sql, SqlValue } from '../../durable/ports.ts';

/** The disk of the object, and the clock by which it is read. */
export interface Storage {
  sql: Sql;
  alarm: Alarm;
  /** Runs work that may fail on a full disk, and undoes its writes then. @returns why it failed; null: it did not */
  undoable(work: () => void): string | null;
  /** Epoch ms. In one life of the object it never goes back. */
  now(): number;
}

/**
 * All I/O of the queue's rules. The object around them hands them the storage and sockets of its host; tests and the
 * simulation hand them node:sqlite and sockets of their own.
 */
export interface Ports extends Storage {
  /** 0..1, with 32 random bits, in production from a cryptographic source. */
  random(): number;
  /** Every open control socket, those from before a hibernation included. */
  connections(): Connection[];
  /** Tells the relay of a worker that one of its streams is lost. Best effort. */
  breakStream(workerId: string, stream: number, reason: BrokenReason): void;
  /** Closes the answer socket of a worker, which has to dial it anew. Best effort. */
  closeAnswers(workerId: string): void;
  /** Reports a worker's registration or end to the fleet object. Best effort: registrations report again. */
  tellFleet(event: FleetEvent): void;
  log(level: 'debug' | 'info' | 'warn' | 'error', message: string, fields?: Record<string, unknown>): void;
}

/** One control socket. Sends never throw: a socket that is gone swallows them. */
export interface Connection {
  readonly id: string;
  /** Scheme, host and port that its peer dialled; absent where that is not known. */
  readonly origin?: string;
  /** The token it was dialled with; null or absent where no tokens are configured. */
  readonly token?: WorkerToken | null;
  /** What the scheduler pays for its machine, US dollars; null or absent: it launched none, or knows no price. */
  readonly price_per_hour?: number | null;
  /** Survives hibernation; at most 16 KiB serialised. */
  load(): Session | null;
  /** Null: the connection is given up. */
  save(session: Session | null): void;
  /** Epoch ms of the last frame or ping of its peer; the host answers pings by itself. */
  lastHeardMs(): number;
  send(frame: Exclude<QueueFrame, { type: 'job' }>): void;
  /** A `job` frame as text or in UTF-8; its payload is passed on unparsed. */
  sendJob(frame: string | Uint8Array<ArrayBuffer>): void;
  close(code: number, reason: string): void;
}

export interface WorkerToken {
  name: string;
  /** SHA-256 of the secret; left out for a launched worker, whose token ends with its launch. */
  sha256?: string;
  /** Epoch ms; left out: it does not expire. */
  expires_at?: number;
  /** Pattern of the worker ids that may use it; null: any. */
  worker_ids: string | null;
  /** The only pool whose jobs it may be given; null: any. */
  config_id: string | null;
}

/** What a registered connection remembers about its worker. */
export interface Session {
  session_id: string;
  worker_id: string;
  config_id: string;
  capacity: number;
  /** US dollars of its machine; null: it is not known. */
  price_per_hour: number | null;
  /** False: the worker speaks only the base protocol. */
  extended: boolean;
  paused: boolean;
  draining: boolean;
  boot_id: string | null;
  /** The machine that the worker runs on; null: the worker does not tell. */
  machine_id: string | null;
  /** Epoch ms */
  connected_at: number;
}
