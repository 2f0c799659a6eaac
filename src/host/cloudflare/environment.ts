import type {
  BatchesStub,
  FilesStub,
  FleetStub,
  KeptRequestsStub,
  Objects,
  QueueStub,
  RelayStub,
  ResponsesStub,
} from '../../asking/objects.ts';
import { type Post, quietly } from '../../durable/host.ts';
import { filtersOf } from '../../features/filters.ts';
import type { GatewayEnv, ServerSocket } from '../../gateway/env.ts';
import { log } from '../../gateway/log.ts';
import { relayName } from '../../relay/calls.ts';
import type { QueueSettingBindings } from '../../settings/queue-settings.ts';
import { answerRequest, askForWorker, upgradeWith } from './crossing.ts';

/** The bindings that the runtime hands to the gateway and to each object: settings, secrets and namespaces. */
export type Bindings = ObjectBindings &
  PrivateNetwork &
  Omit<GatewayEnv, 'objects' | 'filters' | 'acceptUpgrade'>;

const known = new WeakMap<object, GatewayEnv>();

/** Adds to the bindings what the gateway and the objects need beside them. */
export function environmentOf<B extends Bindings>(bindings: B): B & GatewayEnv {
  const made = known.get(bindings) ?? { ...bindings, ...partsOf(bindings), acceptUpgrade };
  known.set(bindings, made);
  return made as B & GatewayEnv;
}

/** Returns the objects, and what looks at requests and answers between them and their callers. */
export function partsOf(bindings: ObjectBindings & QueueSettingBindings & PrivateNetwork) {
  const objects = objectsOf(bindings);
  const filters = filtersOf({ settings: bindings, post: postOf(bindings), objects, log });
  return { objects, filters };
}

/** The namespaces of the objects. */
export interface ObjectBindings {
  QUEUE: DurableObjectNamespace;
  RELAY: DurableObjectNamespace;
  FLEET: DurableObjectNamespace;
  BATCHES: DurableObjectNamespace;
  FILE: DurableObjectNamespace;
  RESPONSES: DurableObjectNamespace;
  KEPT_REQUESTS: DurableObjectNamespace;
}

/** Returns the objects, each a Durable Object: called by RPC, or by `fetch` if RPC cannot carry it (crossing.ts). */
export function objectsOf(bindings: ObjectBindings): Objects {
  const { QUEUE, RELAY, FLEET, BATCHES, FILE, RESPONSES, KEPT_REQUESTS } = bindings;
  return {
    queue: (queueId) =>
      stubWith<QueueStub, 'request' | 'connect'>(QUEUE.getByName(queueId), (queue) => ({
        request: (job) => askForWorker(queue, job),
        connect: (dial, upgrade) => queue.fetch(upgradeWith(upgrade, dial)),
      })),
    fleet: (queueId) =>
      stubWith<FleetStub, 'watch'>(FLEET.getByName(queueId), (fleet) => ({
        watch: (opened, upgrade) => fleet.fetch(upgradeWith(upgrade, opened)),
      })),
    batches: (queueId) => BATCHES.getByName(queueId) as unknown as BatchesStub,
    files: (queueId) =>
      stubWith<FilesStub, 'content'>(FILE.getByName(queueId), (files) => ({
        content: (fileId) => files.fetch(`https://files/${fileId}`),
      })),
    responses: (queueId) => RESPONSES.getByName(queueId) as unknown as ResponsesStub,
    keptRequests: (queueId) => KEPT_REQUESTS.getByName(queueId) as unknown as KeptRequestsStub,
    relay: (queueId, workerId) =>
      stubWith<RelayStub, 'connect' | 'open' | 'openReplay'>(
        RELAY.getByName(relayName(queueId, workerId)),
        (relay) => ({
          connect: (upgrade) => relay.fetch(upgradeWith(upgrade, null)),
          open: (stream, more, asked) => relay.fetch(answerRequest({ stream, more, asked, isReplay: false })),
          openReplay: (stream, more, signal) =>
            relay.fetch(answerRequest({ stream, more, asked: null, isReplay: true }, signal)),
        }),
      ),
  };
}

/** Returns a stub whose calls go by RPC except those of `make`: a proxy, since a stub has a method of every name. */
function stubWith<Stub extends object, Name extends keyof Stub>(
  stub: DurableObjectStub,
  make: (stub: DurableObjectStub) => Pick<Stub, Name>,
): Stub {
  const own = make(stub);
  return new Proxy(stub, {
    get: (stub, name) => (name in own ? own[name as Name] : Reflect.get(stub, name)),
  }) as unknown as Stub;
}

/** Opens the gateway's end of a WebSocket. */
function acceptUpgrade(): { socket: ServerSocket; response: Response } {
  const { 0: client, 1: server } = new WebSocketPair();
  server.accept();
  // The runtime would hand over a frame of bytes as a Blob.
  server.binaryType = 'arraybuffer';
  const socket: ServerSocket = {
    listen: ({ message, closed }) => {
      server.addEventListener('message', ({ data }) => message(data));
      server.addEventListener('close', closed);
      server.addEventListener('error', closed);
    },
    send: (text) => quietly(() => server.send(text)),
    close: (code, reason) => quietly(() => server.close(code, reason)),
  };
  return { socket, response: new Response(null, { status: 101, webSocket: client }) };
}

/** The binding of a runtime that has a separate network for private addresses; on Cloudflare it is not set. */
export interface PrivateNetwork {
  PRIVATE_NETWORK?: { fetch: typeof fetch };
}

export function postOf({ PRIVATE_NETWORK }: PrivateNetwork): Post {
  return (reach) => (url, init) =>
    reach === 'private' && PRIVATE_NETWORK ? PRIVATE_NETWORK.fetch(url, init) : fetch(url, init);
}
