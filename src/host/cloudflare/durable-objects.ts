import { DurableObject } from 'cloudflare:workers';
import { BatchesObject as HostedBatches } from '../../batches/object.ts';
import { freeBytes } from '../../durable/free-bytes.ts';
import { CLOSE_ANSWER_MS, type ObjectHost, quietly } from '../../durable/host.ts';
import { alertingWith } from '../../features/alerts/object/alerting.ts';
import { KeptRequestsObject as HostedKeptRequests } from '../../features/kept-requests/object/object.ts';
import { keptSettings } from '../../features/kept-requests/settings.ts';
import { responsesAsk } from '../../features/responses/gateway/asks.ts';
import { ResponsesObject as HostedResponses } from '../../features/responses/object/object.ts';
import { responsesSettings } from '../../features/responses/object/settings.ts';
import type { FileBucket } from '../../files/bucket-file.ts';
import { FileObject as HostedFile } from '../../files/object.ts';
import type { OpenedWith } from '../../fleet/live-viewers.ts';
import { FleetObject as HostedFleet } from '../../fleet/object.ts';
import { batchesAsk } from '../../gateway/objects/batches.ts';
import { type BrokenReason, bounds } from '../../protocol/index.ts';
import type { QueueObjectSettings } from '../../queue/object/env.ts';
import { QueueObject as HostedQueue } from '../../queue/object/object.ts';
import type { KeptOfWorker } from '../../queue/object/sockets.ts';
import type { WorkerDial } from '../../queue/rpc.ts';
import type { RelayCalls } from '../../relay/calls.ts';
import { RelayHost } from '../../relay/object/host.ts';
import type { QueueSettingBindings } from '../../settings/queue-settings.ts';
import { argumentsOfUpgrade, isUpgrade, readRequest, wantedAnswer } from './crossing.ts';
import {
  type Bindings,
  environmentOf,
  type ObjectBindings,
  objectsOf,
  type PrivateNetwork,
  partsOf,
  postOf,
} from './environment.ts';
import { shellOf } from './shell.ts';

/** The Durable Object that stores which files a queue id has, and runs its batches. */
export class BatchesObject extends shellOf({
  hosted: HostedBatches,
  make: (host: ObjectHost, bindings: Bindings & PrivateNetwork) =>
    new HostedBatches(host, batchesAsk(environmentOf(bindings), host.queueId), {
      settings: bindings,
      post: postOf(bindings),
    }),
  namespace: ({ BATCHES }) => BATCHES,
}) {}

interface FileEnv extends ObjectBindings {
  /** The bucket for the bytes of files; left out: all bytes are stored in rows. */
  FILES?: FileBucket;
}

/** The Durable Object that holds the bytes of a queue id's files. */
export class FileObject extends shellOf({
  hosted: HostedFile,
  make: (host: ObjectHost, env: FileEnv) => new HostedFile(host, objectsOf(env), env.FILES ?? null),
  namespace: ({ FILE }) => FILE,
}) {
  /** Answers the content of `https://files/ID`: a call by RPC may not return a stream of any kind. */
  override async fetch(request: Request): Promise<Response> {
    this.host.eventCame();
    return await this.hosted.content(new URL(request.url).pathname.slice(1));
  }

  /** Stores a piece and frees its bytes, which came as a copy that nobody else reads. */
  async put(id: string, number: number, piece: Uint8Array): Promise<boolean> {
    this.host.eventCame();
    const isTaken = await this.hosted.put(id, number, piece);
    freeBytes(piece);
    return isTaken;
  }
}

/** The Durable Object that stores the responses and conversations of a queue id. */
export class ResponsesObject extends shellOf({
  hosted: HostedResponses,
  make: (host: ObjectHost, bindings: Bindings & PrivateNetwork) =>
    new HostedResponses(
      host,
      responsesSettings(bindings),
      responsesAsk(environmentOf(bindings), host.queueId),
      { settings: bindings, post: postOf(bindings) },
    ),
  namespace: ({ RESPONSES }) => RESPONSES,
}) {}

/** The Durable Object that keeps the records of requests of a queue id. */
export class KeptRequestsObject extends shellOf({
  hosted: HostedKeptRequests,
  make: (host: ObjectHost, bindings: Bindings) => new HostedKeptRequests(host, keptSettings(bindings)),
  namespace: ({ KEPT_REQUESTS }) => KEPT_REQUESTS,
}) {}

type FleetEnv = ObjectBindings & QueueSettingBindings & PrivateNetwork;

/** The Durable Object of the fleet of a queue id. */
export class FleetObject extends shellOf({
  hosted: HostedFleet,
  make: (host: ConstructorParameters<typeof HostedFleet>[0], env: FleetEnv) =>
    new HostedFleet(host, env, objectsOf(env), alertingWith(env, { post: postOf(env), mail: null })),
  namespace: ({ FLEET }) => FLEET,
  opened: argumentsOfUpgrade<OpenedWith>,
}) {}

type QueueEnv = ObjectBindings & QueueObjectSettings & PrivateNetwork;

const QueueShell = shellOf({
  hosted: HostedQueue,
  make: (host: ObjectHost<KeptOfWorker>, env: QueueEnv) =>
    HostedQueue.create(host, { settings: env, ...partsOf(env), post: postOf(env) }),
  namespace: ({ QUEUE }) => QUEUE,
  opened: argumentsOfUpgrade<WorkerDial>,
});

/** The Durable Object of a queue. */
export class QueueObject extends QueueShell {
  /** Takes the request of a caller that waits, or the upgrade of a worker's control socket. */
  override async fetch(request: Request): Promise<Response> {
    if (isUpgrade(request)) return await super.fetch(request);
    const job = await readRequest(request);
    this.host.eventCame();
    const said = await this.hosted.request(job);
    // A worker has the payload by now, or nobody needs it any more.
    freeBytes(job.payload);
    return Response.json(said);
  }

  /**
   * Closes the sockets before the process ends. The runtime keeps the connection of a hibernatable socket after its
   * close handshake, and a process with open connections does not end; so the object aborts, which drops them.
   */
  async closeSockets(): Promise<void> {
    await this.hosted.closeSockets();
    setTimeout(() => this.ctx.abort('queue restarting'), CLOSE_ANSWER_MS);
  }
}

/** The Durable Object around the relay of one worker. */
export class RelayObject extends DurableObject<Bindings> implements RelayCalls {
  readonly #relay: RelayHost;

  constructor(ctx: DurableObjectState, bindings: Bindings) {
    super(ctx, bindings);
    const reconnect_grace_seconds = Number(
      bindings.RECONNECT_GRACE_SECONDS ?? bounds.RECONNECT_GRACE_SECONDS,
    );
    this.#relay = new RelayHost({ reconnect_grace_seconds }, environmentOf(bindings).objects, {
      now: () => Date.now(),
      after: (ms, run) => void setTimeout(run, ms),
    });
  }

  /** Takes the upgrade of a worker's answer socket, or the request of somebody who wants an answer. */
  override async fetch(request: Request): Promise<Response> {
    if (isUpgrade(request)) return this.#connect();
    const { stream, more, asked, isReplay } = wantedAnswer(request);
    if (isReplay) return await this.#relay.openReplay(stream, more, request.signal);
    request.signal.addEventListener('abort', () => this.#relay.gone(stream));
    return await this.#relay.open(stream, more, asked);
  }

  async breakStream(stream: number, reason: BrokenReason): Promise<void> {
    this.#relay.breakStream(stream, reason);
  }

  async closeSockets(): Promise<void> {
    this.#relay.closeSocket();
  }

  /** Opens the socket with `accept()`: hibernation would cost twice as much, and the socket is in use all the time. */
  #connect(): Response {
    const { 0: client, 1: server } = new WebSocketPair();
    server.accept();
    server.binaryType = 'arraybuffer';
    const events = this.#relay.connected({
      send: (message) => quietly(() => server.send(message)),
      close: (code, reason) => quietly(() => server.close(code, reason)),
    });
    server.addEventListener('message', ({ data }) => {
      const message = data as string | ArrayBuffer;
      const isRead = events.message(message);
      // A worker that sends faster than garbage is collected would fill the memory with bytes without a reader.
      if (!isRead && typeof message !== 'string') freeBytes(new Uint8Array(message));
    });
    server.addEventListener('close', () => events.closed());
    server.addEventListener('error', () => events.closed());
    return new Response(null, { status: 101, webSocket: client });
  }
}
