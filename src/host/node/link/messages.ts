import { DefaultDeserializer, serialize } from 'node:v8';
import type { Objects } from '../../../asking/objects.ts';
import type { Dialled } from '../../../gateway/env.ts';
import { type BrokenReason, bounds } from '../../../protocol/index.ts';
import type { RelayMetrics } from '../../../queue/rpc.ts';

/**
 * The version of the link between a gateway process and the owner of the objects. A change that an older side would
 * misread raises it: of the messages, or of a call of an object.
 */
export const LINK_VERSION = 1;

/** The paths that gateway processes request of the owner of the objects. */
export const LINK_PATHS = {
  link: '/link',
  control: '/link/control',
  viewer: '/link/viewer',
  file: '/link/file',
  replay: '/link/replay',
} as const;

/** The header with what a gateway process says of a socket's peer, as JSON in base64url. */
export const OPENED_HEADER = 'x-link-opened';

/** The header of a response that is an object's own. */
export const OBJECT_HEADER = 'x-link-object';

/** The longest message of a link, bytes: a request with the largest body. */
export const MOST_LINK_BYTES = bounds.BODY_FRAME_BYTES;

/** Each side sends a beat this often, ms. */
export const BEAT_MS = 1000;
/** A link over which nothing came during this many beats is broken. */
export const SILENT_BEATS = 5;

/** Calls wait for the next link until the last one has been broken for this many ms; later ones are refused at once. */
export const AWAY_MS = bounds.GATEWAY_AWAY_SECONDS * 1000;

/** The kinds of object that a gateway process asks over the link. */
export const KINDS = ['queue', 'fleet', 'batches', 'files', 'responses', 'keptRequests'] as const;
export type Kind = (typeof KINDS)[number] & keyof Objects;

/** A gateway process that others may reach. */
export interface Peer {
  /** The number in the stream ids of the answers that this process passes on. */
  home: number;
  /** The random id of the process. */
  instance: string;
  /** The host and port at which other gateway processes reach it. */
  address: string;
}

/** The first message of the owner. */
export interface Welcome {
  type: 'welcome';
  /** The number of this gateway process; the owner's own is 0. */
  home: number;
  /** The settings of the gateway as texts by name (src/gateway/env.ts), the tokens among them. */
  bindings: Record<string, string>;
  /** The secret with which gateway processes show each other that they belong together. */
  peers_secret: string;
}

/** The figures of a gateway process's relays, by queue id. */
export type RelayFigures = Record<string, RelayMetrics>;

/** The calls by which gateway processes ask the owner itself. */
export interface OwnerCalls {
  /** Returns the queues whose objects may hold sockets. */
  dialled(): Dialled;
}

export interface Call {
  type: 'call';
  id: number;
  /** `owner`: the process itself, whose `queue_id` is empty. */
  kind: Kind | 'owner';
  queue_id: string;
  /** The name of the object's method, or of one of the owner's (`OwnerCalls`). */
  name: string;
  asked: unknown[];
}

export type FromGateway = Call | { type: 'beat'; relays: RelayFigures };

/** A broken stream of a relay in the gateway process. */
interface BreakStream {
  type: 'break_stream';
  queue_id: string;
  worker_id: string;
  stream: number;
  reason: BrokenReason;
  /** `any home`: the number of the process in `stream` says nothing. */
  where: 'any home' | undefined;
}

/** A worker that has to dial its answer socket again, at whichever process has it. */
interface CloseSockets {
  type: 'close_sockets';
  queue_id: string;
  worker_id: string;
}

/** A message that the owner sends without being asked. */
export type Push =
  | { type: 'tokens'; text: string }
  /**
   * All gateway processes that are linked now, this one among them. One that is left out may still run: its own link
   * may be broken.
   */
  | { type: 'peers'; peers: Peer[] }
  | BreakStream
  | CloseSockets;

export type FromOwner =
  | Welcome
  | Push
  | { type: 'answer'; id: number; answer: unknown }
  | { type: 'error'; id: number; error: ErrorFields }
  | { type: 'beat' };

/** The fields of an error that the gateway acts on or logs. */
interface ErrorFields {
  message: string;
  stack?: string;
  code?: unknown;
  retryable?: boolean;
  overloaded?: boolean;
}

/** @throws Error where a value cannot be sent, such as a function */
export function encode(message: FromGateway | FromOwner): Uint8Array<ArrayBuffer> {
  return serialize(message);
}

export function decode<Message extends FromGateway | FromOwner>(bytes: Uint8Array): Message {
  const reader = new Copying(bytes);
  reader.readHeader();
  return reader.readValue() as Message;
}

/** Reads values whose byte arrays have memory of their own: a view of the message would keep all of it. */
class Copying extends DefaultDeserializer {
  _readHostObject(): unknown {
    // Node's types leave this method out.
    const read = (DefaultDeserializer.prototype as unknown as { _readHostObject(): unknown })._readHostObject;
    const view = read.call(this);
    return view instanceof Uint8Array ? new Uint8Array(view) : view;
  }
}

export function fieldsOfError(thrown: unknown): ErrorFields {
  const { message, stack, code, retryable, overloaded } = Object(thrown) as Partial<ErrorFields>;
  return {
    message: message ?? String(thrown),
    ...(stack !== undefined && { stack }),
    ...(typeof code === 'string' && { code }),
    ...(retryable !== undefined && { retryable }),
    ...(overloaded !== undefined && { overloaded }),
  };
}

export function errorFrom({ message, ...fields }: ErrorFields): Error {
  return Object.assign(new Error(message), fields);
}
