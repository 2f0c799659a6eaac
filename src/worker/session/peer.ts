import {
  BASE_QUEUE,
  bounds,
  EXTENDED_QUEUE,
  type QueueProfile,
  type Registered,
} from '../../protocol/index.ts';

/** The queue at the other end of the control socket: its profile, and what it granted in `registered`. */
export interface Peer extends QueueProfile {
  /** The whole address of the answer socket; undefined: the queue has none, or named one that cannot be dialled. */
  answersUrl: string | undefined;
  /**
   * The longest time between two renewals of leases that the queue allows, s; infinite: the worker's own settings
   * apply.
   */
  renewAfterSeconds: number;
  /** The time between text pings, s. */
  pingSeconds: number;
}

/** The deployed base queue, for which sent means settled, and which has neither releases nor an answer socket. */
export const BASE_PEER: Peer = {
  ...BASE_QUEUE,
  answersUrl: undefined,
  renewAfterSeconds: Number.POSITIVE_INFINITY,
  pingSeconds: bounds.PING_SECONDS,
};

/** Returns the peer on which a `registered` frame agrees. @param profile what else is known of a queue that answers */
export function peerFrom(
  registered: Registered,
  wsUrl: string,
  profile: QueueProfile = EXTENDED_QUEUE,
): Peer {
  return {
    ...profile,
    answersUrl: webSocketUrl(registered.answers_url, wsUrl),
    renewAfterSeconds: registered.renew_after_seconds,
    pingSeconds: registered.ping_seconds ?? bounds.PING_SECONDS,
  };
}

function webSocketUrl(address: string, base: string): string | undefined {
  const url = URL.parse(address, base);
  return url && /^wss?:$/.test(url.protocol) ? url.href : undefined;
}

/** Tells whether the queue speaks the extensions. @param peer null: nothing is agreed yet */
export function isExtended(peer: Peer | null): boolean {
  return peer?.protocol === 'extended';
}
