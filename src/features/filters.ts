import type { Filter } from '../asking/filters.ts';
import type { FilterParts } from './filter-parts.ts';
import { hooks } from './hooks/hooks.ts';
import { keptRequests } from './kept-requests/filter.ts';

/** The functions by which features make their filters, in the order in which these run; null: the queue wants none. */
const FILTERS: readonly ((parts: FilterParts) => Filter | null)[] = [hooks, keptRequests];

/** Returns the filters that the settings of a queue ask for; undefined: none, so that no request is looked at. */
export function filtersOf(parts: FilterParts): readonly Filter[] | undefined {
  const filters = FILTERS.map((make) => make(parts)).filter((filter) => filter !== null);
  return filters.length === 0 ? undefined : filters;
}
