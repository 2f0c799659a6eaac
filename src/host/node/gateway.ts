import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { filtersOf } from '../../features/filters.ts';
import { FEATURE_ROUTES } from '../../features/index.ts';
import { createApp } from '../../gateway/app.ts';
import { takeTokens } from '../../gateway/auth/terms.ts';
import { configuredTokens } from '../../gateway/auth/tokens.ts';
import type { Dialled, GatewayEnv } from '../../gateway/env.ts';
import { awayError, errorResponse } from '../../gateway/errors.ts';
import { logTo } from '../../gateway/log.ts';
import { type Logger, UserError } from '../../process/index.ts';
import { isLoopback } from '../../process/network.ts';
import { Relays } from './answers/relays.ts';
import { peerRoute } from './answers/routes.ts';
import { mostConnections, watchDescriptors } from './descriptors.ts';
import { directInference } from './http/direct.ts';
import { latePost } from './http/late-post.ts';
import { createServer, type ServerParts } from './http/server.ts';
import { acceptUpgrade } from './http/upgrade.ts';
import { Bodies } from './link/bodies.ts';
import { Link } from './link/link.ts';
import type { Peer, Push, Welcome } from './link/messages.ts';
import { Pipes } from './link/pipes.ts';
import { linkedObjects } from './link/stubs.ts';
import { listenError } from './listen-error.ts';
import { logOf } from './log-of.ts';
import { readPage } from './page.ts';
import { logUnexpectedErrors } from './unexpected-errors.ts';

/** Answers may continue for this many ms once the gateway ends. */
const STOP_MS = 2000;

/** Answers may continue for this many ms once the gateway drains. */
const DRAIN_MS = 10 * 60_000;
/** A balancer may still send requests over connections that it keeps, for this many ms. */
const LAST_REQUESTS_MS = 5000;
/** The interval at which a gateway that drains looks whether answers are left, ms. */
const LOOK_EVERY_MS = 100;

type Bindings = Welcome['bindings'];

export interface GatewayOptions {
  host: string;
  /** The port; 0: the system chooses a free one. */
  port: number;
  /**
   * Whether other gateways of this machine listen at the same port. Then this one has another port beside it, for those
   * who mean this one. Left out: no.
   */
  sharesPort?: boolean;
  /** The addresses of the queue, without a trailing slash; the first that is the owner of the objects is linked. */
  queueUrls: readonly string[];
  /** A token of the scope gateway; null: the queue has no tokens. */
  token: string | null;
  /** The host and port at which other gateway processes reach this one; null: the host that the queue sees. */
  advertise: string | null;
  logger?: Logger;
}

export interface RunningGateway {
  /** The address at which this machine reaches the gateway, without a trailing slash. */
  url: string;
  port: number;
  /** Resolves with the first link to the queue. @throws UserError when the queue refuses this gateway */
  linked: Promise<void>;
  /**
   * Accepts no more connections and has workers dial elsewhere. Resolves once all answers have ended, ten minutes later
   * at the latest, and the gateway has stopped.
   */
  drain(): Promise<void>;
  /** Tells workers to dial again, ends running answers, and the link. */
  stop(): Promise<void>;
}

/**
 * Serves a gateway in this process, for a queue in another one, until stopped. It holds no objects and no state;
 * requests wait for the first link as for any later one.
 * @throws UserError when the port is taken or the address is not of this machine
 */
export async function startGateway(options: GatewayOptions): Promise<RunningGateway> {
  const { host, port, sharesPort = false, queueUrls, token, advertise, logger } = options;
  const log = logOf(logger);
  logTo(log);
  const app = createApp([...FEATURE_ROUTES, peerRoute(() => relays!.peers)], await readPage());
  /** The environment of the routes; null: no owner has told the settings yet. */
  let env: GatewayEnv | null = null;
  let direct: ReturnType<typeof directInference> | null = null;
  let relays: Relays | null = null;
  /** The number of this process when the relays were made. */
  let madeFor: number | null = null;
  /** The other processes as the owner told them last. */
  let peers: readonly Peer[] = [];
  let ownerUrl = '';
  /** The settings as the owner told them last. */
  let told: Bindings = {};

  const post = latePost();
  const filtersNow = (settings: Bindings) => filtersOf({ settings, post, objects, log });

  let isDraining = false;
  const parts = {
    mostConnections: mostConnections(),
    direct: {
      takes: (incoming) => direct?.takes(incoming) ?? false,
      answer: (...asked) => direct!.answer(...asked),
    },
    fetch: async (request, background) => {
      const answer = async () =>
        app.fetch(request, env!, { waitUntil: background, passThroughOnException: () => {}, props: {} });
      if (isHealthCheck(request)) {
        if (env === null) return errorResponse(awayError(link.away!));
        if (isDraining) return Response.json({ status: 'draining' }, { status: 503 });
        return await link.askNow(answer);
      }
      if (env === null) await link.whenLinked();
      return await answer();
    },
  } satisfies Partial<ServerParts>;
  const server = await createServer({ ...parts, host, port, sharesPort }).catch((error: unknown) => {
    throw listenError(error, options, 'GATEWAY');
  });
  const own = sharesPort ? await createServer({ ...parts, host: '127.0.0.1', port: 0 }) : null;

  const instance = randomUUID();
  const link = new Link({
    urls: queueUrls,
    token,
    instance,
    address: advertise,
    port: (own ?? server).port,
    figures: () => relays?.figures() ?? {},
    welcomed,
    pushed,
    lost: () => pipes.close(),
    log,
  });
  const pipes = new Pipes(link);
  const bodies = new Bodies(link);
  const objects = linkedObjects({
    link,
    bodies,
    pipes,
    relay: (queueId, workerId) => relays!.stub(queueId, workerId, null),
  });

  function welcomed({ home, bindings, peers_secret }: Welcome, url: string): void {
    const { TOKENS = '[]', ...settings } = bindings;
    if (env === null && configuredTokens({ TOKENS }).length === 0 && !isLoopback(host)) {
      throw new UserError(
        `The queue at ${url} has no tokens, so its gateways listen on this machine only, not on ${host}: anybody could use it. ` +
          'Make tokens for it ("npx worker-vllm token create"), start it again, and give this gateway one with the scope gateway.',
      );
    }
    if (home !== madeFor) {
      // Workers reach no stream that has the number from before.
      relays?.leave();
      relays = new Relays(settings, objects, log, home);
      madeFor = home;
    }
    ownerUrl = url;
    relays!.peers.join(instance, peers_secret);
    relays!.peers.set(peers, ownerUrl);
    if (env === null) {
      env = {
        ...bindings,
        objects,
        filters: filtersNow(bindings),
        away: () => link.away,
        dialled: async () => (await link.call('owner', '', 'dialled', [])) as Dialled,
        acceptUpgrade,
        wakesRequests: true,
      };
      direct = directInference(env);
      told = settings;
      return;
    }
    // An owner that was started again may have other settings, and lack some.
    for (const name of Object.keys(told)) if (!(name in settings)) delete (env as unknown as Bindings)[name];
    Object.assign(env, settings, { filters: filtersNow(bindings) });
    told = settings;
    take(TOKENS);
  }

  function take(text: string): void {
    if (env === null || text === JSON.stringify(configuredTokens(env))) return;
    takeTokens(env, text).catch((error: unknown) =>
      log('error', 'the tokens of the queue cannot be taken', { error: String(error) }),
    );
  }

  function pushed(push: Push): void {
    if (push.type === 'tokens') return take(push.text);
    if (push.type === 'peers') {
      ({ peers } = push);
      relays?.peers.set(peers, ownerUrl);
      return;
    }
    const relay = relays?.stub(push.queue_id, push.worker_id, null);
    if (push.type === 'close_sockets') void relay?.closeSockets();
    else void relay?.breakStream(push.stream, push.reason, push.where);
  }

  const stopWatching = watchDescriptors(logger);
  const stopLogging = logUnexpectedErrors(log);

  const streams = () => Object.values(relays?.figures() ?? {}).reduce((sum, { streams }) => sum + streams, 0);

  let stopping: Promise<void> | undefined;
  async function drain(): Promise<void> {
    const startedAt = performance.now();
    isDraining = true;
    server.drain();
    pipes.close();
    relays?.closeSockets();
    while (stopping === undefined) {
      const sinceMs = performance.now() - startedAt;
      const isLeft = server.connections === 0 || sinceMs >= LAST_REQUESTS_MS;
      const isOver = isLeft && server.unanswered === 0 && streams() === 0;
      if (isOver || sinceMs >= DRAIN_MS) break;
      await sleep(LOOK_EVERY_MS);
    }
    stopping ??= stop();
    await stopping;
  }

  async function stop(): Promise<void> {
    const closed = Promise.all([server, own].map((one) => one?.close(STOP_MS)));
    relays?.leave();
    pipes.close();
    await closed;
    link.close();
    await bodies.close();
    stopWatching();
    stopLogging();
  }
  const linked = link.start();
  linked.catch(() => {});
  return { url: server.url, port: server.port, linked, drain, stop: () => (stopping ??= stop()) };
}

function isHealthCheck({ url }: Request): boolean {
  return ['/health', '/healthz'].includes(new URL(url).pathname);
}
