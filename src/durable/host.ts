import type { Alarm, Sql } from './ports.ts';

/** A host that closes an object's sockets gives their peers this long to answer before it drops the connections, ms. */
export const CLOSE_ANSWER_MS = 50;

/**
 * The host of an object, as the object sees it: storage, clock, timers, sockets. An object is one instance of a class for
 * one queue id, with a database of its own. There are two hosts: `host/node` runs all objects in one process, and
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
  /** Returns the time, epoch ms. It never goes back within one life of the object. */
  now(): number;
  /** Returns the machine's time, epoch ms: behind `now` while its clock has been set back. */
  machineTime(): number;
  /** Returns the size of the database, bytes. */
  databaseBytes(): number;
  /** Runs synchronous work and undoes its writes if it throws; the error is thrown on. */
  transaction<T>(work: () => T): T;
  /**
   * Resolves when the events that were waiting have been handed to the object, and the earlier commit has been synced.
   */
  gathered(): Promise<void>;
  /** Runs something after `ms`, unless the object has ended by then. @returns a function that cancels it */
  after(ms: number, run: () => void): () => void;
  /** Keeps the object at work until this settles; its error is logged. */
  background(work: Promise<unknown>): void;
  /** Returns every open socket of the object, including those from before a hibernation. */
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
 * Sends requests to addresses that are not ours.
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
  /** The socket's unique id, which a hibernation does not change. */
  readonly id: string;
  /** True once either side has closed the socket: later messages do not count. */
  readonly isClosing: boolean;
  load(): Kept;
  save(kept: Kept): void;
  /** Sends a message. Bytes must not be read or changed afterwards: the host may free them. */
  send(message: string | Uint8Array<ArrayBuffer>): void;
  close(code: number, reason: string): void;
  /** Returns the epoch ms of the peer's last ping, which the host answers by itself; 0 if none came. */
  pingedAt(): number;
}

/**
 * How a socket closed: the peer's code; null: the connection broke; `cut off`: the host gave it up together with the
 * way to the peer, which may be well.
 */
export type CloseCode = number | null | 'cut off';

/**
 * The methods by which a host informs an object about events, beside the object's calls. A host runs one of these
 * methods at a time until its first await. @typeParam Opened what the gateway says of a socket's peer: plain data
 */
export interface HostedObject<Opened = never, Kept = never> {
  /**
   * The ping text by which a peer of the object's sockets asks whether they hold, and the answer, which the host sends
   * by itself.
   */
  readonly pings?: { ping: string; pong: string };
  /**
   * Handles the alarm.
   * @param setFor the time for which the alarm was set, epoch ms; null: the host does not know it any more
   */
  alarm?(setFor: number | null): Promise<void>;
  /** Returns why no further socket may be opened, as a sentence, or null; the host then answers 503 with it. */
  mayOpen?(): string | null;
  /** Handles a socket that has been opened, in which the object `save`s what the socket is to keep. */
  opened?(socket: HostSocket<Kept>, opened: Opened): void;
  message?(socket: HostSocket<Kept>, message: string | Uint8Array<ArrayBuffer>): Promise<void>;
  /** Handles the close of a socket. */
  closed?(socket: HostSocket<Kept>, code: CloseCode): Promise<void>;
  /**
   * Handles a clock of the machine that was set back. The host restarts the object after this, since timers and alarms
   * are set for times that are far away by the new clock. The object writes what the next one has to know.
   */
  clockSetBack?(): void;
}

/** Calls a socket or a response that may be gone. The error is ignored: a close or cancel event reports the same. */
export function quietly(use: () => void): void {
  try {
    use();
  } catch {
    // A close or cancel event reports the error.
  }
}
