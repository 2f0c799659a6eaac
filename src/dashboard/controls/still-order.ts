import { useRef } from 'preact/hooks';

/** Rows keep their order while somebody points at what holds them; what is new comes last then. */
export function useStillOrder<Row>(
  holder: { current: Element | null },
  rows: readonly Row[],
  idOf: (row: Row) => string,
): readonly Row[] {
  const last = useRef<{ rows: readonly Row[]; shown: readonly Row[] }>({ rows: [], shown: [] });
  let shown = rows;
  if (holder.current?.matches(':hover')) {
    const { rows: before, shown: held } = last.current;
    // The same rows are drawn again and again while they are scrolled.
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
  const places = new Map(held.map((row, place) => [idOf(row), place]));
  const placeOf = (row: Row) => places.get(idOf(row)) ?? places.size;
  return [...rows].sort((a, b) => placeOf(a) - placeOf(b));
}
