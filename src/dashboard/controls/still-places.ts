/** A place in a list, with the item there or, if the place is free for the next one, the item that was there last. */
export interface Place<T> {
  item: T;
  isOver: boolean;
}

/**
 * Gives each item a place in a list whose rows do not move: a shown item stays where it is, the place of an item that
 * is gone stays free until a new one takes it, and free places at the end are removed.
 * @param before the places as they were last shown
 * @param items in the order in which new items get places
 * @param most the number of shown places; an item without a shown place takes one that becomes free
 */
export function keepPlaces<T>(
  before: Place<T>[],
  items: readonly T[],
  keyOf: (item: T) => string,
  most = Number.POSITIVE_INFINITY,
): Place<T>[] {
  const left = new Map(items.map((item) => [keyOf(item), item]));
  const places = before.slice(0, most).map(({ item }): Place<T> => {
    const key = keyOf(item);
    const now = left.get(key);
    left.delete(key);
    return now === undefined ? { item, isOver: true } : { item: now, isOver: false };
  });
  for (const item of left.values()) {
    const free = places.findIndex(({ isOver }) => isOver);
    places.splice(free === -1 ? places.length : free, free === -1 ? 0 : 1, { item, isOver: false });
  }
  return places.slice(0, places.findLastIndex(({ isOver }) => !isOver) + 1);
}
