import { VIEWER_HEADERS } from '../../fleet/rpc.ts';
import { WORKER_TOKEN_HEADERS } from '../../queue/rpc.ts';
import { RELAY_HEADER, relayName } from '../../relay/calls.ts';
import type { EndedToken, TokenEntry } from '../../settings/token-entry.ts';
import { type Env, objectNamed } from '../env.ts';
import { namedQueues } from './queue-ids.ts';
import { storageFault } from './storage-faults.ts';

/** Objects that may hold sockets of this process, which it closes at its end. */
const dialled = { queues: new Set<string>(), relays: new Set<string>(), fleets: new Set<string>() };

/**
 * Passes a worker's WebSocket upgrade to its queue, with what its token says about the worker. The queue checks
 * `register` by that, since it need not name the worker that the address names.
 * @param pricePerHour US dollars of its machine; null: it is not known
 */
export async function dialQueue(
  env: Env,
  queueId: string,
  request: Request,
  token: (TokenEntry & { config_id?: string }) | null,
  pricePerHour: number | null,
): Promise<Response> {
  dialled.queues.add(queueId);
  const headers = new Headers(request.headers);
  for (const name of [...Object.values(WORKER_TOKEN_HEADERS), RELAY_HEADER]) headers.delete(name);
  if (token) headers.set(WORKER_TOKEN_HEADERS.name, encodeURIComponent(token.name));
  if (token?.sha256) headers.set(WORKER_TOKEN_HEADERS.sha256, token.sha256);
  if (token?.expires_at)
    headers.set(WORKER_TOKEN_HEADERS.expires, String(Math.ceil(Date.parse(token.expires_at))));
  if (token?.worker_id) headers.set(WORKER_TOKEN_HEADERS.pattern, encodeURIComponent(token.worker_id));
  if (token?.config_id) headers.set(WORKER_TOKEN_HEADERS.pool, encodeURIComponent(token.config_id));
  if (pricePerHour !== null) headers.set(WORKER_TOKEN_HEADERS.price, String(pricePerHour));
  try {
    return await objectNamed(env.QUEUE, queueId).fetch(new Request(request, { headers }));
  } catch (error) {
    throw storageFault(error, queueId) ?? error;
  }
}

/**
 * Passes the upgrade of a fleet's viewer to the fleet object: the socket ends with the token or the sign-in with which
 * the viewer asked for it.
 */
export function watchFleet(
  env: Env,
  queueId: string,
  request: Request,
  token: (TokenEntry & { signed_in?: string }) | null,
): Promise<Response> {
  dialled.fleets.add(queueId);
  const headers = new Headers(request.headers);
  for (const name of Object.values(VIEWER_HEADERS)) headers.delete(name);
  if (token?.signed_in !== undefined) headers.set(VIEWER_HEADERS.signIn, token.signed_in);
  if (token) headers.set(VIEWER_HEADERS.sha256, token.sha256);
  if (token?.expires_at) headers.set(VIEWER_HEADERS.expires, String(Math.ceil(Date.parse(token.expires_at))));
  return objectNamed(env.FLEET, queueId).fetch(new Request(request, { headers }));
}

/** Passes the upgrade of a worker's answer socket to its relay. */
export function dialRelay(env: Env, queueId: string, workerId: string, request: Request): Promise<Response> {
  const name = relayName(queueId, workerId);
  if (!env.RELAYS_IN_QUEUE) dialled.relays.add(name);
  return fetchRelay(env, queueId, name, new Request(request));
}

/** Asks a relay, wherever it lives. @param name of relayName */
export function fetchRelay(env: Env, queueId: string, name: string, request: Request): Promise<Response> {
  if (!env.RELAYS_IN_QUEUE) return objectNamed(env.RELAY, name).fetch(request);
  request.headers.set(RELAY_HEADER, encodeURIComponent(name));
  return objectNamed(env.QUEUE, queueId).fetch(request);
}

/** Tells every connected worker to reconnect, because this process ends. */
export async function closeAllSockets(env: Env): Promise<void> {
  await Promise.allSettled([
    ...[...dialled.queues].map((name) => objectNamed(env.QUEUE, name).closeSockets()),
    ...[...dialled.relays].map((name) => objectNamed(env.RELAY, name).closeSockets()),
  ]);
}

/**
 * Closes what was opened with these tokens, and ends what was asked for with those of them that are gone. What belongs
 * to other tokens goes on.
 */
export async function endTokens(env: Env, ended: readonly EndedToken[]): Promise<void> {
  if (ended.length === 0) return;
  const named = namedQueues(env);
  const secrets = ended.map(({ sha256 }) => sha256);
  await Promise.allSettled([
    ...[...new Set([...named, ...dialled.queues])].map((name) =>
      objectNamed(env.QUEUE, name).endTokens(ended),
    ),
    ...[...new Set([...named, ...dialled.fleets])].map((name) =>
      objectNamed(env.FLEET, name).closeViewers(secrets),
    ),
  ]);
}
