import { access, constants } from 'node:fs/promises';
import { join } from 'node:path';
import type { Log, Post } from '../../durable/host.ts';
import { createApp } from '../../gateway/app.ts';
import type { GatewayEnv } from '../../gateway/env.ts';
import { logTo } from '../../gateway/log.ts';
import { takeTokens } from '../../gateway/take-tokens.ts';
import type { Logger } from '../../process/index.ts';
import type { QueueSettingBindings } from '../../settings/queue-settings.ts';
import { assertUsable } from '../../state/check.ts';
import { fileKeySecret } from '../../state/file-key-secret.ts';
import { makeFolder, stateFolderError } from '../../state/folder.ts';
import { followTokens } from '../../state/follow-tokens.ts';
import { lockState, type StateLock } from '../../state/lock.ts';
import { mostConnections, watchDescriptors } from './descriptors.ts';
import { boundHeap } from './heap-bound.ts';
import { acceptUpgrade } from './http/accept-upgrade.ts';
import { directInference } from './http/direct.ts';
import { createServer, type RunningServer } from './http/server.ts';
import { listenError } from './listen-error.ts';
import { createNodeObjects, type NodeObjects } from './objects/objects.ts';
import { readPage } from './page.ts';
import { bindingsOf, type QueueSettings } from './settings.ts';

/** How often the queue looks whether its state folder is still there, ms. */
const LOOK_EVERY_MS = 2000;

/** How long answers may go on once the queue ends, ms. */
const STOP_MS = 2000;

export interface QueueOptions {
  host: string;
  /** 0 lets the system choose a free one. */
  port: number;
  /** Folder of the databases and of what lies beside them; created when missing. */
  stateDir: string;
  /** Text variables of the gateway's environment (src/gateway/env.ts). */
  bindings: Record<string, string>;
  logger?: Logger;
}

export interface RunningQueue {
  /** Without a trailing slash, reachable from this machine. */
  url: string;
  port: number;
  /** Resolves where it cannot keep what it acknowledges any more: then the process has to end. */
  failed: Promise<Error>;
  /** Other tokens are asked for from now on. @param text as the binding TOKENS @throws where it is not what that holds */
  setTokens(text: string): Promise<void>;
  /** Tells every worker to reconnect, ends what is answered, and gives the state folder free. */
  stop(): Promise<void>;
}

/**
 * Serves queue and gateway in this process until stopped.
 * @throws UserError when the port or the state folder is taken, the state cannot be used, or the address is not of
 *   this machine
 */
export async function startQueue(options: QueueOptions): Promise<RunningQueue> {
  const { stateDir } = options;
  const dataDir = join(stateDir, 'data');
  await makeDataFolder(stateDir, dataDir);
  // First of all, so that no other version's state is touched.
  await assertUsable(stateDir);
  const lock = await lockState(stateDir);
  try {
    return await serve(options, dataDir, lock);
  } catch (error) {
    lock.release();
    throw listenError(error, options);
  }
}

/** The same with what an operator has set; tokens of the state folder that change meanwhile are made known to it. */
export async function startConfiguredQueue(settings: QueueSettings, logger: Logger): Promise<RunningQueue> {
  const stopBounding = boundHeap();
  const queue = await startQueue({ ...settings, bindings: bindingsOf(settings), logger });
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

async function serve(options: QueueOptions, dataDir: string, lock: StateLock): Promise<RunningQueue> {
  const { host, port, stateDir, bindings, logger } = options;
  const log = logOf(logger);
  const failed = Promise.withResolvers<Error>();
  const settings = { FILE_KEY_SECRET: await fileKeySecret(stateDir), ...bindings };
  logTo(log);
  const app = createApp(await readPage());
  const post = await postOf(bindings);
  const objects = createNodeObjects({ dataDir, settings, post, log, fatal: failed.resolve });
  const env: GatewayEnv = { ...settings, objects: objects.stubs, acceptUpgrade };
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
  const goOn = (error: unknown) =>
    log('error', 'something failed unexpectedly', { error: (error as Error)?.stack ?? String(error) });
  // What fails outside of all that is guarded must not end what others wait for. Rejections that nobody handles come here too.
  process.setUncaughtExceptionCaptureCallback(goOn);

  let stopping: Promise<void> | undefined;
  return {
    url: server.url,
    port: server.port,
    failed: failed.promise,
    setTokens: (text) => takeTokens(env, text),
    stop: () =>
      (stopping ??= stop(server, objects).finally(() => {
        stopWatching();
        stopLooking();
        process.setUncaughtExceptionCaptureCallback(null);
        lock.release();
      })),
  };
}

/**
 * What posts takes 19 MB, so it is loaded only where a setting asks for posts. At the start, since a later version may
 * have taken the place of its file when it is needed.
 */
async function postOf({ ALERT_URL, WEBHOOK_SECRET }: QueueSettingBindings): Promise<Post> {
  if (ALERT_URL || WEBHOOK_SECRET) return (await import('./http/post.ts')).createPost();
  return () => async () => {
    throw new Error('nothing is posted: neither QUEUE_ALERT_URL nor QUEUE_WEBHOOK_SECRET is set');
  };
}

/** Nobody new is let in; workers are told to dial again, and callers why their answers end. */
async function stop(server: RunningServer, objects: NodeObjects): Promise<void> {
  const closed = server.close(STOP_MS);
  await objects.close();
  await closed;
}

/**
 * Files that were removed under a queue go on taking what it stores, and end with it: it would acknowledge jobs that no
 * later process finds.
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
    // One that was there may be another user's.
    await access(dataDir, constants.W_OK);
  } catch (error) {
    throw stateFolderError('write to the state folder', stateDir, error);
  }
}

function logOf(logger: Logger | undefined): Log {
  return (level, message, fields = {}) => logger?.[level](fields, message);
}
