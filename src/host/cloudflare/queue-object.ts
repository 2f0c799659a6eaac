import { freeBytes } from '../../durable/free-bytes.ts';
import type { ObjectHost } from '../../durable/host.ts';
import type { QueueObjectSettings } from '../../queue/object/env.ts';
import { QueueObject as Hosted } from '../../queue/object/object.ts';
import type { KeptOfWorker } from '../../queue/object/sockets.ts';
import type { WorkerDial } from '../../queue/rpc.ts';
import { isUpgrade, toldByUpgrade } from './crossing.ts';
import { type ObjectBindings, objectsOf } from './objects.ts';
import { type PrivateNetwork, postOf } from './post.ts';
import { readRequest } from './request-crossing.ts';
import { shellOf } from './shell.ts';

type Env = ObjectBindings & QueueObjectSettings & PrivateNetwork;

/** Peers get this long to answer a close before their connections are dropped, ms. */
const LAST_WORDS_MS = 50;

const Shell = shellOf({
  hosted: Hosted,
  make: (host: ObjectHost<KeptOfWorker>, env: Env) =>
    Hosted.create(host, { settings: env, objects: objectsOf(env), post: postOf(env) }),
  namespace: ({ QUEUE }) => QUEUE,
  opened: toldByUpgrade<WorkerDial>,
});

/** The Durable Object of a queue. */
export class QueueObject extends Shell {
  /** Takes the request of a caller that waits, or the upgrade of a worker's control socket. */
  override async fetch(request: Request): Promise<Response> {
    if (isUpgrade(request)) return await super.fetch(request);
    const job = await readRequest(request);
    this.host.eventCame();
    const said = await this.hosted.request(job);
    // A worker has the payload by now, or nobody needs it any more.
    freeBytes(job.payload);
    return Response.json(said);
  }

  /**
   * Closes the sockets before the process ends. The runtime keeps the connection of a hibernatable socket after its
   * close handshake, and a process with open connections does not end: the object aborts, which drops them.
   */
  async closeSockets(): Promise<void> {
    await this.hosted.closeSockets();
    setTimeout(() => this.ctx.abort('queue restarting'), LAST_WORDS_MS);
  }
}
