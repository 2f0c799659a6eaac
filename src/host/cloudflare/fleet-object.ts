import type { OpenedWith } from '../../fleet/live-viewers.ts';
import { FleetObject as Hosted } from '../../fleet/object.ts';
import type { QueueSettingBindings } from '../../settings/queue-settings.ts';
import { toldByUpgrade } from './crossing.ts';
import { type ObjectBindings, objectsOf } from './objects.ts';
import { type PrivateNetwork, postOf } from './post.ts';
import { shellOf } from './shell.ts';

type Env = ObjectBindings & QueueSettingBindings & PrivateNetwork;

/** The Durable Object of the fleet of a queue id. */
export class FleetObject extends shellOf({
  hosted: Hosted,
  make: (host: ConstructorParameters<typeof Hosted>[0], env: Env) =>
    new Hosted(host, env, objectsOf(env), postOf(env)),
  namespace: ({ FLEET }) => FLEET,
  opened: toldByUpgrade<OpenedWith>,
}) {}
