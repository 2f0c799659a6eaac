import { describe, expect, it } from 'vitest';
import { keepPlaces, type Place } from '../../../src/dashboard/controls/still-places.ts';

const keyOf = (item: string) => item.slice(0, 1);
const shown = (places: Place<string>[]) => places.map(({ item, isOver }) => (isOver ? '-' : item));

describe('places of rows that do not move', () => {
  it('are in the given order at first', () => {
    expect(shown(keepPlaces([], ['b', 'a', 'c'], keyOf))).toEqual(['b', 'a', 'c']);
  });

  it('are kept, whatever the order becomes, with what is told of each now', () => {
    const before = keepPlaces([], ['a', 'b', 'c'], keyOf);
    expect(shown(keepPlaces(before, ['c2', 'b2', 'a2'], keyOf))).toEqual(['a2', 'b2', 'c2']);
  });

  it('stay free when their item has gone, until a new one comes', () => {
    const before = keepPlaces([], ['a', 'b', 'c'], keyOf);
    const without = keepPlaces(before, ['b', 'c'], keyOf);
    expect(shown(without)).toEqual(['-', 'b', 'c']);
    expect(shown(keepPlaces(without, ['d', 'b', 'c', 'e'], keyOf))).toEqual(['d', 'b', 'c', 'e']);
  });

  it('are given back to an item that returns', () => {
    const before = keepPlaces([], ['a', 'b', 'c'], keyOf);
    const without = keepPlaces(before, ['c'], keyOf);
    expect(shown(keepPlaces(without, ['b', 'c', 'd'], keyOf))).toEqual(['d', 'b', 'c']);
  });

  it('are taken by what was not shown, where only some are shown', () => {
    const before = keepPlaces([], ['a', 'b', 'c', 'd'], keyOf, 2);
    expect(shown(keepPlaces(before, ['b', 'c', 'd'], keyOf, 2)).slice(0, 2)).toEqual(['c', 'b']);
  });

  it('are given up at the end', () => {
    const before = keepPlaces([], ['a', 'b', 'c'], keyOf);
    expect(shown(keepPlaces(before, ['a'], keyOf))).toEqual(['a']);
    expect(keepPlaces(before, [], keyOf)).toEqual([]);
  });
});
