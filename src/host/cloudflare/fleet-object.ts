import type { BatchesRpc } from '../../batches/rpc.ts';
import { FleetObject as Hosted } from '../../fleet/object.ts';
import type { FleetRpc, QueueTells } from '../../fleet/rpc.ts';
import type { QueueSettingBindings } from '../../settings/queue-settings.ts';
import { type PrivateNetwork, postOf } from './post.ts';
import { shellOf } from './shell.ts';
import { openedWith } from './viewer-headers.ts';

interface Env extends QueueSettingBindings, PrivateNetwork {
  QUEUE: { getByName(queueId: string): QueueTells };
  FLEET: DurableObjectNamespace;
  BATCHES: { getByName(queueId: string): BatchesRpc };
}

/** The Durable Object of the fleet of a queue id. */
export class FleetObject extends shellOf({
  hosted: Hosted,
  make: (host: ConstructorParameters<typeof Hosted>[0], env: Env) =>
    new Hosted(host, env, objectsOf(env), postOf(env)),
  namespace: ({ FLEET }) => FLEET,
  opened: ({ headers }) => openedWith(headers),
}) {}

function objectsOf({ QUEUE, FLEET, BATCHES }: Env): ConstructorParameters<typeof Hosted>[2] {
  return {
    queue: (queueId) => QUEUE.getByName(queueId),
    fleet: (queueId) => FLEET.getByName(queueId) as unknown as FleetRpc,
    batches: (queueId) => BATCHES.getByName(queueId),
  };
}
