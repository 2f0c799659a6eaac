import {
  BASE_QUEUE,
  EXTENDED_QUEUE,
  FEATURES,
  type Feature,
  limits,
  type QueueProfile,
  type Registered,
  type WorkerFrame,
} from '../../protocol/index.ts';

/** The queue at the other end of the control socket: how it differs from others, and what it has granted. */
export interface Peer extends QueueProfile {
  granted: ReadonlySet<Feature>;
  /** Where to dial the answer socket; resolved against the queue's own address. */
  answersUrl: string | undefined;
  /** Leases are renewed at least this often, seconds; infinite: as the worker is set. */
  renewAfterSeconds: number;
  /** Between text pings, seconds. */
  pingSeconds: number;
}

/** The side of the session that jobs see. */
export interface QueueLink {
  /** The last agreement, also while the socket is down. */
  readonly peer: Peer | null;
  /** False when nothing is agreed on a connection at the moment. */
  send(frame: WorkerFrame): boolean;
}

/** The deployed base protocol: sent means settled, no release, no answer socket. */
export const BASE_PEER: Peer = {
  ...BASE_QUEUE,
  granted: new Set(),
  answersUrl: undefined,
  renewAfterSeconds: Number.POSITIVE_INFINITY,
  pingSeconds: limits.PING_SECONDS,
};

/** What a `registered` frame grants. @param profile what else is known of a queue that answers */
export function peerFrom(
  registered: Registered,
  wsUrl: string,
  profile: QueueProfile = EXTENDED_QUEUE,
): Peer {
  const granted = new Set(FEATURES.filter((feature) => registered.features.includes(feature)));
  const answers = granted.has('answer') ? registered.answers_url : undefined;
  return {
    ...profile,
    granted,
    answersUrl: answers === undefined ? undefined : webSocketUrl(answers, wsUrl),
    renewAfterSeconds: registered.renew_after_seconds,
    pingSeconds: registered.ping_seconds ?? limits.PING_SECONDS,
  };
}

/** Undefined for what cannot be dialled: the worker goes on as with a queue that grants no answer socket. */
function webSocketUrl(address: string, base: string): string | undefined {
  const url = URL.parse(address, base);
  return url && /^wss?:$/.test(url.protocol) ? url.href : undefined;
}

export function grants(peer: Peer | null, feature: Feature): boolean {
  return peer?.granted.has(feature) ?? false;
}
