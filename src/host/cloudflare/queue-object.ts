import type { Objects } from '../../asking/objects.ts';
import { freeBytes } from '../../durable/free-bytes.ts';
import type { ObjectHost } from '../../durable/host.ts';
import type { FileRpc } from '../../files/rpc.ts';
import type { FleetRpc } from '../../fleet/rpc.ts';
import type { QueueObjectSettings } from '../../queue/object/env.ts';
import { QueueObject as Hosted } from '../../queue/object/object.ts';
import type { KeptOfWorker } from '../../queue/object/sockets.ts';
import { readRequest, sayAnswer } from '../../queue/request-call.ts';
import { bytesOf } from '../../queue/rpc.ts';
import { type RelayCalls, relayName } from '../../relay/calls.ts';
import { type PrivateNetwork, postOf } from './post.ts';
import { shellOf } from './shell.ts';
import { dialOf } from './worker-dial.ts';

interface Env extends QueueObjectSettings, PrivateNetwork {
  QUEUE: DurableObjectNamespace;
  RELAY: { getByName(name: string): RelayCalls };
  FLEET: { getByName(queueId: string): FleetRpc };
  FILE: { getByName(queueId: string): FileRpc };
}

/** How long peers get to answer a close before connections are dropped, ms. */
const LAST_WORDS_MS = 50;

const Shell = shellOf({
  hosted: Hosted,
  make: (host: ObjectHost<KeptOfWorker>, env: Env) =>
    Hosted.create(host, { settings: env, objects: objectsOf(env), post: postOf(env) }),
  namespace: ({ QUEUE }) => QUEUE,
  opened: dialOf,
});

/** The Durable Object of a queue. */
export class QueueObject extends Shell {
  /** The request of a caller that waits, or the upgrade of a worker's control socket. */
  override async fetch(request: Request): Promise<Response> {
    const asked = await readRequest(request);
    if (asked === null) return await super.fetch(request);
    this.host.eventCame();
    const said = await this.hosted.request(asked.job);
    // A worker has it by now, or it is of no use any more.
    freeBytes(bytesOf(asked.job.payload));
    return sayAnswer(said);
  }

  /**
   * The process ends. The runtime keeps the connection of a hibernatable socket after its close handshake, and a
   * process with open connections does not end: an object that aborts drops them.
   */
  async closeSockets(): Promise<void> {
    await this.hosted.closeSockets();
    setTimeout(() => this.ctx.abort('queue restarting'), LAST_WORDS_MS);
  }
}

function objectsOf({ RELAY, FLEET, FILE }: Env): Pick<Objects, 'fleet' | 'files' | 'relay'> {
  return {
    fleet: (queueId) => FLEET.getByName(queueId),
    files: (queueId) => FILE.getByName(queueId),
    relay: (queueId, workerId) => RELAY.getByName(relayName(queueId, workerId)),
  } as Pick<Objects, 'fleet' | 'files' | 'relay'>;
}
