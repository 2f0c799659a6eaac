import type { Filter } from '../asking/filters.ts';
import type { Objects } from '../asking/objects.ts';
import { inferenceRoutes, type RouteList } from '../protocol/index.ts';
import type { OidcBindings } from '../settings/oidc.ts';
import type { QueueSettingBindings } from '../settings/queue-settings.ts';

/** The bindings of the gateway. The objects read the settings. */
export interface Env extends QueueSettingBindings {
  objects: Objects;
  /**
   * A JSON array of TokenEntry (settings/token-entry.ts). Where it is empty or absent, the gateway asks for no token
   * and serves loopback only.
   */
  TOKENS?: string;
  /**
   * Returns how long the process that holds the objects has been out of reach; null: calls reach it. Left out where the
   * objects are at hand.
   */
  away?(): Away | null;
  /**
   * Returns the queues whose objects may hold sockets that were opened by any gateway process; left out where there is
   * one alone.
   */
  dialled?(): Promise<Dialled>;
  /** The filters that look at requests and answers on their way; left out: there are none. */
  filters?: readonly Filter[] | undefined;
  /** The key of the MACs in the addresses of payloads and results; without it the gateway answers 503 there. */
  FILE_KEY_SECRET?: string;
  /** Whether one request may wait for a promise that another one resolves. On Cloudflare none may. */
  wakesRequests?: boolean;
}

/** The bindings that decide who may do what. */
export type AuthSettings = Pick<
  Env,
  'TOKENS' | 'LOCAL_HOSTS' | 'QUEUE_IDS' | 'objects' | 'wakesRequests' | keyof OidcBindings
>;

/** The ids of queues whose objects, or those of whose fleets, may hold sockets. */
export interface Dialled {
  queues: string[];
  fleets: string[];
}

/** The state of a gateway that does not reach the objects. */
export interface Away {
  /** The time since which no call reaches them, epoch ms. */
  since: number;
  /** Whether calls are refused by now; false: they wait until the objects are reached again. */
  refuses: boolean;
}

/** The environment of the gateway's routes. */
export interface GatewayEnv extends Env {
  /** Opens the gateway's end of a WebSocket that a caller requests. */
  acceptUpgrade(upgrade: Request): { socket: ServerSocket; response: Response };
}

/** The gateway's end of a WebSocket. Its methods never throw: a closed socket drops what is sent. */
export interface ServerSocket {
  /** The gateway calls this once, before it answers the upgrade. */
  listen(heard: { message(data: string | ArrayBuffer): void; closed(): void }): void;
  send(text: string): void;
  close(code: number, reason: string): void;
}

/** A request without its body. */
export interface RequestHead {
  readonly method: string;
  /** The request's whole address. */
  readonly url: string;
  readonly headers: HeadersOfRequest;
}

/** A request's headers; their names are in small letters. */
interface HeadersOfRequest extends Iterable<[name: string, value: string]> {
  get(name: string): string | null;
  has(name: string): boolean;
}

/** The list of routes, parsed once for each text that describes it. */
let routes: { text: string; list: RouteList } | null = null;

/** Returns the routes of engines that callers may use. */
export function inferenceRoutesOf({ INFERENCE_ROUTES: text = '' }: Env): RouteList {
  if (routes?.text !== text) routes = { text, list: inferenceRoutes(text) };
  return routes.list;
}
