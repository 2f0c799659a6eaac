import type { Objects } from '../asking/objects.ts';
import type { Log, Post } from '../durable/host.ts';
import type { QueueSettingBindings } from '../settings/queue-settings.ts';

/** The parts that a host hands to the filters of its queues. */
export interface FilterParts {
  settings: QueueSettingBindings;
  post: Post;
  /** The objects, as the gateway asks them. */
  objects: Objects;
  log: Log;
}
