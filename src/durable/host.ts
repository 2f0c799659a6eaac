import type { Alarm, Sql } from './ports.ts';

/**
 * A host hands this to each of its objects: storage, clock, timers, sockets. An object is one instance of a class for one
 * queue id, with a database of its own. There are two hosts: `host/node` runs all objects in one process, and
 * `host/cloudflare` runs each as a Durable Object.
 *
 * Both hosts promise the same: statements between two awaits are one commit, and a reply, a message on a socket or a
 * call of another object leaves only once everything that was written before it is on disk.
 *
 * @typeParam Kept what a socket keeps while its object hibernates: plain data, at most 16 KiB serialised
 */
export interface ObjectHost<Kept = never> {
  /** The id of the queue that the object belongs to. */
  readonly queueId: string;
  readonly sql: Sql;
  readonly alarm: Alarm;
  /** Epoch ms. It never goes back within one life of the object. */
  now(): number;
  /** Epoch ms as the machine tells it: behind `now` while its clock has been set back. */
  machineTime(): number;
  /** Size of the database, bytes. */
  databaseBytes(): number;
  /** Runs synchronous work and undoes its writes if it throws; the error is thrown on. */
  transaction<T>(work: () => T): T;
  /** Resolves when the events that were waiting have been handed to the object, and the commit before has been synced. */
  gathered(): Promise<void>;
  /** Runs something after `ms`, unless the object has ended by then. @returns takes it back */
  after(ms: number, run: () => void): () => void;
  /** Keeps the object at work until this settles; its error is logged. */
  background(work: Promise<unknown>): void;
  /** Every open socket of the object, those from before a hibernation included. */
  sockets(): HostSocket<Kept>[];
  /**
   * Ends this object at once: nothing that it wrote since the last commit is kept, its timers and sockets end, its
   * callers ask again, and the next call makes a new object from the tables.
   * @param reason the error that pending calls get
   */
  restart(reason: string): void;
  /**
   * Deletes every table and the alarm, and gives the disk back.
   * @param remake makes the object's tables anew, before the host hands the object anything else
   */
  clear<T>(remake: () => T): Promise<T>;
  log: Log;
}

/**
 * How requests leave for addresses that are not ours.
 * @param reach `public`: only addresses that anybody can reach; `private`: those of the operator's network too
 */
export type Post = (reach: 'public' | 'private') => (url: string, init: RequestInit) => Promise<Response>;

/** Writes a line of the log. Fields are plain data and hold no secret. */
export type Log = (
  level: 'debug' | 'info' | 'warn' | 'error',
  message: string,
  fields?: Record<string, unknown>,
) => void;

/** The object's end of a WebSocket. Its methods never throw: a socket that is gone swallows what is sent. */
export interface HostSocket<Kept> {
  /** Unique, and the same after a hibernation. */
  readonly id: string;
  /** Whether either side has closed it: messages that come after that do not count. */
  readonly isClosing: boolean;
  load(): Kept;
  save(kept: Kept): void;
  /** Bytes must not be read or changed after that: the host may free them. */
  send(message: string | Uint8Array<ArrayBuffer>): void;
  close(code: number, reason: string): void;
  /** Epoch ms of its peer's last ping, which the host answers by itself; 0: none came. */
  pingedAt(): number;
}

/**
 * A host tells an object of events by these methods, beside its calls. A host runs one of these methods at a time until its first await.
 * @typeParam Opened what the gateway says of a socket's peer: plain data
 */
export interface HostedObject<Opened = never, Kept = never> {
  /** The text by which a peer of its sockets asks whether they hold, and the answer, which the host gives by itself. */
  readonly pings?: { ping: string; pong: string };
  /** @param setFor the time for which the alarm was set, epoch ms; null: the host does not know it any more */
  alarm?(setFor: number | null): Promise<void>;
  /** Returns why no further socket may be opened, a sentence, or null; the host then answers 503 with it. */
  mayOpen?(): string | null;
  /** A socket has been opened: `save` what it is to keep. */
  opened?(socket: HostSocket<Kept>, opened: Opened): void;
  message?(socket: HostSocket<Kept>, message: string | Uint8Array<ArrayBuffer>): Promise<void>;
  /** @param code as the peer gave it; null: the connection broke */
  closed?(socket: HostSocket<Kept>, code: number | null): Promise<void>;
  /**
   * The clock of the machine was set back, and the host restarts the object after this: timers and alarms are set for
   * times that are far away by the new clock. The object writes what the next one has to know.
   */
  clockSetBack?(): void;
}
