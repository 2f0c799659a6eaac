import type { OpenedWith } from '../../fleet/live-viewers.ts';
import type { WorkerDial } from '../../queue/rpc.ts';
import type { EndedToken, TokenEntry } from '../../settings/token-entry.ts';
import type { Dialled, Env } from '../env.ts';
import { callFleet, callQueue, toldFault } from './calls.ts';
import { namedQueues } from './ids.ts';

/** The ids of the queues whose objects may hold sockets that were opened here, or in gateway processes linked here. */
const dialled = { queues: new Set<string>(), fleets: new Set<string>() };

/** Notes that the object of a queue, or of its fleet, may have a socket. */
export function noteDialled(of: keyof Dialled, queueId: string): void {
  dialled[of].add(queueId);
}

/** Returns the queues for which `noteDialled` was called. */
export function dialledHere(): Dialled {
  return { queues: [...dialled.queues], fleets: [...dialled.fleets] };
}

/**
 * Passes a worker's WebSocket upgrade to its queue, with what its token says about the worker. The queue checks
 * `register` by that, since a `register` frame need not name the worker that the address names.
 * @param pricePerHour the price of the worker's machine, US dollars an hour; null where it is unknown
 */
export async function dialQueue(
  { objects }: Env,
  queueId: string,
  request: Request,
  token: (TokenEntry & { config_id?: string }) | null,
  pricePerHour: number | null,
): Promise<Response> {
  noteDialled('queues', queueId);
  const dial = { origin: originOf(request), token: token && shown(token), price_per_hour: pricePerHour };
  try {
    return await objects.queue(queueId).connect(dial, request);
  } catch (error) {
    throw toldFault(error, queueId);
  }
}

/** Returns the address that the worker dialled and dials again: a proxy before us may have removed the encryption. */
function originOf(request: Request): string {
  const url = new URL(request.url);
  const forwarded = request.headers.get('x-forwarded-proto')?.split(',')[0]?.trim().toLowerCase();
  const scheme = forwarded === 'https' || forwarded === 'http' ? `${forwarded}:` : url.protocol;
  return `${scheme}//${url.host}`;
}

function shown({ name, sha256, expires_at, worker_id, config_id }: TokenEntry & { config_id?: string }) {
  return {
    name,
    ...(sha256 && { sha256 }),
    ...(expires_at && { expires_at: endOf(expires_at) }),
    worker_ids: worker_id ?? null,
    config_id: config_id ?? null,
  } satisfies WorkerDial['token'];
}

/** Returns the epoch ms of a token's end. */
function endOf(expiresAt: string): number {
  return Math.ceil(Date.parse(expiresAt));
}

/**
 * Passes the upgrade of a fleet's viewer to the fleet object. The socket closes when the token or the sign-in with
 * which the viewer requested it ends.
 */
export async function watchFleet(
  { objects }: Env,
  queueId: string,
  request: Request,
  token: (TokenEntry & { signed_in?: string }) | null,
): Promise<Response> {
  noteDialled('fleets', queueId);
  const opened: OpenedWith = {
    ...(token?.signed_in !== undefined && { signIn: token.signed_in }),
    ...(token?.sha256 && {
      token: {
        sha256: token.sha256,
        ...(token.expires_at && { expires_at: endOf(token.expires_at) }),
      },
    }),
  };
  try {
    return await objects.fleet(queueId).watch(opened, request);
  } catch (error) {
    throw toldFault(error, queueId);
  }
}

/** Passes the upgrade of a worker's answer socket to its relay. */
export function dialRelay(
  { objects }: Env,
  queueId: string,
  workerId: string,
  request: Request,
): Promise<Response> {
  return objects.relay(queueId, workerId).connect(request);
}

/**
 * Closes the sockets that were opened with these tokens, and ends the requests of those tokens that are gone. What
 * belongs to other tokens goes on.
 */
export async function endTokens(env: Env, ended: readonly EndedToken[]): Promise<void> {
  if (ended.length === 0) return;
  const named = namedQueues(env);
  // A queue that does not answer now has its sockets opened anew, with the tokens that are good then.
  const all = (await env.dialled?.().catch(() => null)) ?? dialledHere();
  const secrets = ended.map(({ sha256 }) => sha256);
  await Promise.allSettled([
    ...[...new Set([...named, ...all.queues])].map((name) =>
      callQueue(env, name, (queue) => queue.endTokens(ended)),
    ),
    ...[...new Set([...named, ...all.fleets])].map((name) =>
      callFleet(env, name, (fleet) => fleet.closeViewers(secrets)),
    ),
  ]);
}
