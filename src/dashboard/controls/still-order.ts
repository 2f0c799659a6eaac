import { useRef } from 'preact/hooks';

/** Rows keep their order while somebody points at what holds them; what is new comes last then. */
export function useStillOrder<Row>(
  holder: { current: Element | null },
  rows: readonly Row[],
  idOf: (row: Row) => string,
): readonly Row[] {
  const order = useRef<string[]>([]);
  let shown = rows;
  if (holder.current?.matches(':hover')) {
    const places = new Map(order.current.map((id, place) => [id, place]));
    const placeOf = (row: Row) => places.get(idOf(row)) ?? places.size;
    shown = [...rows].sort((a, b) => placeOf(a) - placeOf(b));
  }
  order.current = shown.map(idOf);
  return shown;
}
