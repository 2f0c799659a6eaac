import { useRef } from 'preact/hooks';
import { keepPlaces } from './still-places.ts';

/**
 * Returns the rows in the order in which they were shown while somebody points at what holds them: a new row then
 * takes the place of one that has gone, or comes last.
 */
export function useStillOrder<Row>(
  holder: { current: Element | null },
  rows: readonly Row[],
  idOf: (row: Row) => string,
): readonly Row[] {
  const last = useRef<{ rows: readonly Row[]; shown: readonly Row[] }>({ rows: [], shown: [] });
  let shown = rows;
  if (holder.current?.matches(':hover')) {
    const { rows: before, shown: held } = last.current;
    // The same rows are drawn again and again during scrolling.
    shown = before === rows ? held : inOrderOf(held, rows, idOf);
  }
  last.current = { rows, shown };
  return shown;
}

function inOrderOf<Row>(
  held: readonly Row[],
  rows: readonly Row[],
  idOf: (row: Row) => string,
): readonly Row[] {
  const before = held.map((item) => ({ item, isOver: false }));
  return keepPlaces(before, rows, idOf).flatMap(({ item, isOver }) => (isOver ? [] : item));
}
