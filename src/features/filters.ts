import type { Filter } from '../asking/filters.ts';
import type { Objects } from '../asking/objects.ts';
import type { Log, Post } from '../durable/host.ts';
import type { QueueSettingBindings } from '../settings/queue-settings.ts';

/** What a host hands to the filters of its queues. */
export interface FilterParts {
  settings: QueueSettingBindings;
  post: Post;
  /** The objects, as the gateway asks them. */
  objects: Objects;
  log: Log;
}

/** The functions by which features make their filters, in the order in which these run; null: the queue wants none. */
const FILTERS: readonly ((parts: FilterParts) => Filter | null)[] = [];

/** Returns the filters that the settings of a queue ask for; undefined: none, so that no request is looked at. */
export function filtersOf(parts: FilterParts): readonly Filter[] | undefined {
  const filters = FILTERS.map((make) => make(parts)).filter((filter) => filter !== null);
  return filters.length === 0 ? undefined : filters;
}
