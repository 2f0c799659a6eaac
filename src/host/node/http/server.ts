import { once } from 'node:events';
import { createServer as createHttpServer, type IncomingMessage, ServerResponse } from 'node:http';
import { type AddressInfo, type Socket, Server as TcpServer } from 'node:net';
import { HangUp } from '../../../asking/attempt-loop.ts';
import { type ErrorOf, errorResponse, toHttpError } from '../../../gateway/errors.ts';
import { dialableHost } from '../../../process/network.ts';
import { dialectOf } from '../../../protocol/index.ts';
import { writeAnswer } from './answer.ts';
import { Connections } from './connections.ts';
import { HEAD_BYTES, refuse } from './refusal.ts';
import { impossibleMethod, requestOf } from './request.ts';
import { asksForSocket, checkHandshake, lacksUpgrade, openSocket, UpgradeResponse } from './upgrade.ts';

/** A request's head has to be complete within this many ms of its first byte. */
const HEAD_WITHIN_MS = 15_000;

/**
 * A connection that stays idle, from its beginning or after an answer, is closed after this many ms. Load balancers and nginx keep theirs open
 * for 60 s: if this side closed sooner, a request would now and then be lost on a closing connection, and nobody
 * repeats it.
 */
const IDLE_MS = 65_000;

/** The number of connections that may wait to be accepted. */
const BACKLOG = 4096;

/**
 * The path at which each process says that its event loop turns, and nothing else: a platform that watches it restarts
 * what hangs, and neither a gateway whose queue is away nor a queue that follows another one.
 */
const LIVE_PATH = '/livez';

type Background = (work: Promise<unknown>) => void;

export interface Direct {
  takes(incoming: IncomingMessage): boolean;
  /** Answers the request. Never rejects. @param hangUp fires when the caller leaves */
  answer(
    incoming: IncomingMessage,
    outgoing: ServerResponse,
    hangUp: HangUp,
    background: Background,
  ): Promise<void>;
}

export interface ServerParts {
  /** Answers a request. @param background takes promises that nobody awaits, and logs their errors */
  fetch(request: Request, background: Background): Response | Promise<Response>;
  /** Answers some requests without `fetch`; left out: `fetch` answers all. */
  direct?: Direct;
  host: string;
  /** The port; 0: the system chooses. */
  port: number;
  /** Whether other processes listen at the same port, each with its share of the connections; left out: no. */
  sharesPort?: boolean;
  /** The most open connections, beyond which new ones are closed at once; left out: no limit. */
  mostConnections?: number;
}

export interface RunningServer {
  /** The address at which this machine reaches the server. */
  url: string;
  port: number;
  /**
   * Accepts no more connections. Those that are open get answers until `close`, each of which says that it is the last
   * one, since a request that comes to a connection just as it is ended would be lost.
   */
  drain(): void;
  /** The number of open connections. */
  readonly connections: number;
  /** The number of requests without a whole answer. */
  readonly unanswered: number;
  /** Stops accepting, and ends idle connections. @param withinMs after this time the others are broken off */
  close(withinMs: number): Promise<void>;
}

/**
 * Serves HTTP and WebSockets with one function from request to response.
 * @throws the system's error if the address cannot be listened on
 */
export async function createServer(parts: ServerParts): Promise<RunningServer> {
  const connections = new Connections(IDLE_MS - HEAD_WITHIN_MS);
  const server = createHttpServer({
    maxHeaderSize: HEAD_BYTES,
    headersTimeout: HEAD_WITHIN_MS,
    connectionsCheckingInterval: 1000,
    keepAliveTimeout: IDLE_MS,
    // The gateway has time limits of its own for bodies.
    requestTimeout: 0,
    // `requestOf` refuses a missing host itself, and HTTP/1.0 needs none.
    requireHostHeader: false,
    keepAlive: true,
    shouldUpgradeCallback: asksForSocket,
  });
  // 0 lifts the limit, beyond which headers would be dropped silently; `maxHeaderSize` bounds their size.
  server.maxHeadersCount = 0;
  if (parts.mostConnections !== undefined) server.maxConnections = parts.mostConnections;
  // Callers that close their side at once still get an answer that is ready soon; `Connections` ends the others.
  (server as unknown as { httpAllowHalfOpen: boolean }).httpAllowHalfOpen = true;
  let isDraining = false;
  const closed = new Promise<void>((resolve) => server.once('close', () => resolve()));
  const answer = (incoming: IncomingMessage, outgoing: ServerResponse, waits = false) => {
    if (isDraining || connections.areClosing) outgoing.shouldKeepAlive = false;
    serve(parts, connections, incoming, outgoing, waits).catch((error: unknown) => {
      toHttpError(error);
      outgoing.destroy();
    });
  };
  server.on('connection', (socket) => connections.add(socket));
  server.on('request', (incoming, outgoing) => answer(incoming, outgoing));
  server.on('checkContinue', (incoming, outgoing) => answer(incoming, outgoing, true));
  server.on('checkExpectation', (incoming, outgoing) => answer(incoming, outgoing));
  server.on('upgrade', (incoming, socket, head) => {
    serveUpgrade(parts, connections, incoming, socket as Socket, head).catch((error: unknown) => {
      toHttpError(error);
      socket.destroy();
    });
  });
  server.on('connect', (_incoming, socket) => refuse(socket as Socket, impossibleMethod('CONNECT')));
  server.on('clientError', (error: NodeJS.ErrnoException, socket) =>
    connections.onFault(error, socket as Socket),
  );
  server.listen({
    port: parts.port,
    host: parts.host,
    backlog: BACKLOG,
    reusePort: parts.sharesPort ?? false,
  });
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://${dialableHost(parts.host)}:${port}`,
    port,
    drain: () => {
      isDraining = true;
      // The server's own `close` would end idle connections too.
      TcpServer.prototype.close.call(server);
    },
    get connections() {
      return connections.count;
    },
    get unanswered() {
      return connections.unanswered;
    },
    close: async (withinMs) => {
      server.close();
      connections.close();
      const timer = setTimeout(() => connections.breakOff(), withinMs);
      await closed;
      clearTimeout(timer);
    },
  };
}

/** Answers one request. @param waits whether the caller sends the body only when asked for it */
async function serve(
  parts: ServerParts,
  connections: Connections,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  waits: boolean,
): Promise<void> {
  // An earlier request of this connection has broken it off.
  if (incoming.socket.destroyed) return;
  const hangUp = new HangUp();
  const leave = connections.begin(incoming.socket, incoming, () => {
    hangUp.happen();
    // Node 22 closes only the first of several responses of a connection.
    if (incoming.socket.destroyed && outgoing.socket === null) outgoing.destroy().emit('close');
  });
  outgoing.on('error', () => {});
  incoming.on('error', () => {});
  outgoing.once('close', () => {
    leave();
    if (!outgoing.writableFinished) hangUp.happen();
  });
  if (parts.direct?.takes(incoming)) {
    return await parts.direct.answer(incoming, outgoing, hangUp, background);
  }
  const gone = new AbortController();
  void hangUp.whenHappened.then(() => gone.abort());
  const askForBody = () => {
    if (waits && !outgoing.headersSent) outgoing.writeContinue();
  };
  const response = await answerOf(incoming, () =>
    incoming.url === LIVE_PATH
      ? live()
      : parts.fetch(requestOf(incoming, gone.signal, askForBody), background),
  );
  const isOpening = response instanceof UpgradeResponse;
  if (isOpening) response.gone();
  await writeAnswer(isOpening ? lacksUpgrade() : response, incoming, outgoing);
}

async function serveUpgrade(
  parts: ServerParts,
  connections: Connections,
  incoming: IncomingMessage,
  socket: Socket,
  head: Buffer,
): Promise<void> {
  socket.on('error', () => {});
  const gone = new AbortController();
  const abort = () => gone.abort();
  const leave = connections.begin(socket, incoming, abort);
  socket.once('close', abort);
  const response = await answerOf(incoming, () => {
    checkHandshake(incoming);
    return parts.fetch(
      requestOf(incoming, gone.signal, () => {}),
      background,
    );
  });
  socket.off('close', abort);
  if (response instanceof UpgradeResponse) {
    connections.becomesWebSocket(socket);
    leave();
    return openSocket(response, incoming, socket, head);
  }
  socket.once('close', leave);
  const outgoing = new ServerResponse(incoming);
  outgoing.on('error', () => {});
  outgoing.shouldKeepAlive = false;
  outgoing.assignSocket(socket);
  outgoing.once('finish', () => {
    outgoing.detachSocket(socket);
    socket.resume();
    socket.destroySoon();
  });
  await writeAnswer(response, incoming, outgoing);
}

/** Returns the answer, or that of an error. */
async function answerOf(
  incoming: IncomingMessage,
  fetch: () => Response | Promise<Response>,
): Promise<Response> {
  try {
    return await fetch();
  } catch (error) {
    const requestId = crypto.randomUUID();
    return errorResponse(toHttpError(error, requestId), errorOf(incoming, requestId));
  }
}

function errorOf({ url = '/' }: IncomingMessage, requestId: string): ErrorOf {
  return { dialect: dialectOf(url.split('?', 1)[0]!), requestId };
}

function live(): Response {
  return Response.json({ status: 'ok' });
}

function background(work: Promise<unknown>): void {
  work.catch((error: unknown) => toHttpError(error));
}
