import { FEATURES, type Feature, limits, type Registered, type WorkerFrame } from '../protocol/index.ts';

/** What the queue at the other end of the control socket can do. */
export type Peer =
  /** The deployed base protocol: sent means settled, no release, no answer socket. */
  | { kind: 'base' }
  | {
      kind: 'extended';
      granted: ReadonlySet<Feature>;
      /** Where to dial the answer socket; resolved against the queue's own address. */
      answersUrl: string | undefined;
      leaseSeconds: number;
      renewAfterSeconds: number;
      pingSeconds: number;
    };

/** The side of the session that jobs see. */
export interface QueueLink {
  /** The last agreement, also while the socket is down. */
  readonly peer: Peer | null;
  /** False when nothing is agreed on a connection at the moment. */
  send(frame: WorkerFrame): boolean;
}

export const BASE_PEER: Peer = { kind: 'base' };

/** What a `registered` frame grants. */
export function peerFrom(registered: Registered, wsUrl: string): Peer {
  const granted = new Set(FEATURES.filter((feature) => registered.features.includes(feature)));
  const answers = granted.has('answer') ? registered.answers_url : undefined;
  return {
    kind: 'extended',
    granted,
    answersUrl: answers === undefined ? undefined : webSocketUrl(answers, wsUrl),
    leaseSeconds: registered.lease_seconds,
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
  return peer?.kind === 'extended' && peer.granted.has(feature);
}

/** The largest frame the peer takes, bytes. */
export function frameLimit(peer: Peer): number {
  return peer.kind === 'base' ? limits.BASE_FRAME_BYTES : limits.FRAME_BYTES;
}
