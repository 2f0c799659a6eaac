import { randomUUID } from 'node:crypto';
import { access, constants } from 'node:fs/promises';
import { join } from 'node:path';
import type { Post } from '../../durable/host.ts';
import type { SendMail } from '../../features/alerts/object/send.ts';
import { FEATURE_ROUTES } from '../../features/index.ts';
import { createApp } from '../../gateway/app.ts';
import { takeTokens } from '../../gateway/auth/terms.ts';
import { configuredTokens } from '../../gateway/auth/tokens.ts';
import type { GatewayEnv } from '../../gateway/env.ts';
import { logTo } from '../../gateway/log.ts';
import type { Logger } from '../../process/index.ts';
import { alertReceivers } from '../../settings/alert-receivers.ts';
import type { QueueSettingBindings } from '../../settings/queue-settings.ts';
import { assertUsable } from '../../state/check.ts';
import {
  fileKeySecret,
  lockState,
  makeFolder,
  type StateLock,
  stateFolderError,
} from '../../state/folder.ts';
import { followTokens } from '../../state/tokens.ts';
import { peerRoute } from './answers/routes.ts';
import { mostConnections, watchDescriptors } from './descriptors.ts';
import { boundHeap } from './heap-bound.ts';
import { directInference } from './http/direct.ts';
import { createServer, type RunningServer } from './http/server.ts';
import { acceptUpgrade } from './http/upgrade.ts';
import type { Owner } from './journal/owner.ts';
import { assertFollowsNone } from './journal/place.ts';
import { Links } from './link/links.ts';
import { peersSecret } from './link/peers-secret.ts';
import { linkRoutes } from './link/routes.ts';
import { listenError } from './listen-error.ts';
import { logOf } from './log-of.ts';
import { createNodeObjects, type NodeObjects } from './objects/objects.ts';
import { readPage } from './page.ts';
import { bindingsOf, type QueueSettings } from './settings.ts';
import { logUnexpectedErrors } from './unexpected-errors.ts';

/** The interval at which the queue checks that its state folder is still there, ms. */
const LOOK_EVERY_MS = 2000;

/** Answers may continue for this many ms once the queue ends. */
const STOP_MS = 2000;

export interface QueueOptions {
  host: string;
  /** The port; 0: the system chooses a free one. */
  port: number;
  /** The folder of the databases and of the files beside them; created if missing. */
  stateDir: string;
  /** The text variables of the gateway's environment (src/gateway/env.ts). */
  bindings: Record<string, string>;
  logger?: Logger;
  /** The right to write the journal of the state folder; left out: it has none. */
  owner?: Owner;
}

export interface RunningQueue {
  /** The address at which this machine reaches the queue, without a trailing slash. */
  url: string;
  port: number;
  /** Resolves if the queue can no longer keep acknowledged jobs: then the process has to end. */
  failed: Promise<Error>;
  /** Replaces the accepted tokens. @param text in the form of the binding TOKENS @throws if it has another form */
  setTokens(text: string): Promise<void>;
  /** Tells every worker to reconnect, ends running answers, and unlocks the state folder. */
  stop(): Promise<void>;
}

/** A queue that runs, in this process or in several. */
export type QueueAtWork = Pick<RunningQueue, 'url' | 'port' | 'failed' | 'stop'>;

/**
 * Serves queue and gateway in this process until stopped.
 * @throws UserError when the port or the state folder is taken, the state cannot be used, the folder follows a journal
 *   that is not named, or the address is not of this machine
 */
export async function startQueue(options: QueueOptions): Promise<RunningQueue> {
  const { stateDir } = options;
  const dataDir = join(stateDir, 'data');
  await makeDataFolder(stateDir, dataDir);
  // This check comes before all else, so that no other version's state is touched.
  await assertUsable(stateDir);
  if (!options.owner) await assertFollowsNone(stateDir);
  const lock = await lockState(stateDir);
  try {
    return await serve(options, dataDir, lock);
  } catch (error) {
    lock.release();
    throw listenError(error, options, 'QUEUE');
  }
}

/**
 * Starts the queue with an operator's settings, and hands it the state folder's tokens whenever they change.
 * @param ended ends the wait of a follower for its turn; left out: only the process's end does
 */
export async function startConfiguredQueue(
  settings: QueueSettings,
  logger: Logger,
  ended?: AbortSignal,
): Promise<RunningQueue> {
  const owner = settings.journal === undefined ? undefined : await ownerOf(settings, logger, ended);
  const stopBounding = boundHeap();
  const queue = await startQueue({
    ...settings,
    bindings: bindingsOf(settings),
    logger,
    ...(owner && { owner }),
  }).catch(async (error) => {
    await owner?.end(Promise.resolve());
    throw error;
  });
  const stopFollowing = followTokens(
    settings.stateDir,
    async (tokens) => {
      if (settings.tokens.length > 0)
        await queue.setTokens(JSON.stringify([...tokens, ...settings.otherTokens]));
      else if (tokens.length > 0)
        logger.warn('tokens were made: this queue, which has none, asks for them after a restart');
    },
    logger,
  );
  const stop = () => {
    stopFollowing();
    stopBounding();
    return queue.stop();
  };
  return { ...queue, stop };
}

/** Becomes the owner of the journal. Its code is loaded only where there is one. */
async function ownerOf(
  settings: QueueSettings,
  logger: Logger,
  ended = new AbortController().signal,
): Promise<Owner> {
  const { becomeOwner } = await import('./journal/become-owner.ts');
  return await becomeOwner({ ...settings, journal: settings.journal! }, logOf(logger), ended);
}

async function serve(options: QueueOptions, dataDir: string, lock: StateLock): Promise<RunningQueue> {
  const { host, port, stateDir, bindings, logger, owner } = options;
  const log = logOf(logger);
  const failed = Promise.withResolvers<Error>();
  const settings = { FILE_KEY_SECRET: await fileKeySecret(stateDir), ...bindings };
  logTo(log);
  const links = new Links({
    objects: () => objects.stubs,
    welcome: () => ({
      bindings: { ...settings, TOKENS: JSON.stringify(configuredTokens(env)) },
      peers_secret: peersSecret(settings.FILE_KEY_SECRET),
    }),
    problem: () => owner?.problem ?? null,
    peers: (gateways) => objects.relays.peers.set(gateways, null),
    log,
  });
  const app = createApp(
    [...FEATURE_ROUTES, linkRoutes(links), peerRoute(() => objects.relays.peers)],
    await readPage(),
  );
  const [post, mail] = [await postOf(bindings), await mailOf(bindings)];
  const objects = createNodeObjects({
    dataDir,
    settings,
    post,
    mail,
    elsewhere: links,
    log,
    owner,
    fatal: failed.resolve,
  });
  objects.relays.peers.join(randomUUID(), peersSecret(settings.FILE_KEY_SECRET));
  owner?.onPause(() => links.pause('the queue cannot reach its journal'));
  void owner?.lost.then(failed.resolve);
  const env: GatewayEnv = {
    ...settings,
    objects: objects.stubs,
    filters: objects.filters,
    acceptUpgrade,
    wakesRequests: true,
  };
  const server = await createServer({
    host,
    port,
    mostConnections: mostConnections(),
    direct: directInference(env),
    fetch: (request, background) =>
      app.fetch(request, env, { waitUntil: background, passThroughOnException: () => {}, props: {} }),
  }).catch(async (error) => {
    await objects.close();
    throw error;
  });
  const stopWatching = watchDescriptors(logger);
  const stopLooking = watchFolder(lock, stateDir, failed.resolve);
  const stopLogging = logUnexpectedErrors(log);

  let stopping: Promise<void> | undefined;
  return {
    url: server.url,
    port: server.port,
    failed: failed.promise,
    setTokens: (text) => {
      const taken = takeTokens(env, text);
      links.tellTokens(text);
      return taken;
    },
    stop: () =>
      (stopping ??= stop(server, objects, links, owner).finally(() => {
        stopWatching();
        stopLooking();
        stopLogging();
        lock.release();
      })),
  };
}

/**
 * Loads the module that posts, which takes 19 MB, only if a setting asks for posts. The queue loads it at the start: a
 * later version may have replaced its file by the time of the first post.
 */
async function postOf({
  ALERTS,
  ALERT_URL,
  WEBHOOK_SECRET,
  HOOK_SECRET,
}: QueueSettingBindings): Promise<Post> {
  if (ALERTS || ALERT_URL || WEBHOOK_SECRET || HOOK_SECRET)
    return (await import('./http/post.ts')).createPost();
  return () => async () => {
    throw new Error(
      'nothing is posted: none of QUEUE_ALERTS, QUEUE_ALERT_URL, QUEUE_WEBHOOK_SECRET and QUEUE_HOOK_SECRET is set',
    );
  };
}

/** Loads the module that sends mail only if a receiver of alerts gets mail. */
async function mailOf({ ALERTS = '' }: QueueSettingBindings): Promise<SendMail | null> {
  const receivers = alertReceivers({ alerts: ALERTS, alert_url: '' });
  if (!receivers.some(({ kind }) => kind === 'email')) return null;
  return (await import('./http/mail.ts')).sendMail;
}

/** Stops admission, tells workers to dial again, and tells callers why their answers end. */
async function stop(
  server: RunningServer,
  objects: NodeObjects,
  links: Links,
  owner: Owner | undefined,
): Promise<void> {
  const closed = server.close(STOP_MS);
  // Gateway processes ask the next owner what was not answered: this one would only refuse it.
  links.close();
  const closing = objects.close();
  await (owner ? owner.end(closing) : closing);
  await closed;
}

/**
 * Watches for the removal of the state folder. Removed files would still accept what the queue stores until it ends: it
 * would acknowledge jobs that no later process finds.
 */
function watchFolder(lock: StateLock, stateDir: string, lost: (error: Error) => void): () => void {
  const timer = setInterval(async () => {
    if (await lock.holds()) return;
    clearInterval(timer);
    lost(new Error(`the state folder ${stateDir} was removed or replaced, with all that was stored in it`));
  }, LOOK_EVERY_MS);
  timer.unref();
  return () => clearInterval(timer);
}

async function makeDataFolder(stateDir: string, dataDir: string): Promise<void> {
  try {
    await makeFolder(dataDir);
    // A folder that existed before may be another user's.
    await access(dataDir, constants.W_OK);
  } catch (error) {
    throw stateFolderError('write to the state folder', stateDir, error);
  }
}
