import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { keepPlaces } from './still-places.ts';

/**
 * Keeps the most room that its contents once took, so that they can come and go without moving what is below, until the
 * user leaves the view or resizes the window.
 */
export function Still({ children }: { children: ComponentChildren }) {
  const outer = useRef<HTMLDivElement>(null);
  const inner = useRef<HTMLDivElement>(null);
  useEffect(() => {
    let [width, most] = [0, 0];
    const sizes = new ResizeObserver(([entry]) => {
      if (!entry || !outer.current) return;
      const size = entry.contentRect;
      if (size.width !== width) [width, most] = [size.width, 0];
      if (most === 0) outer.current.style.minHeight = '';
      if (size.height <= most) return;
      most = Math.ceil(size.height);
      outer.current.style.minHeight = `${most}px`;
    });
    sizes.observe(inner.current!);
    return () => sizes.disconnect();
  }, []);
  return (
    <div ref={outer}>
      <div class="still" ref={inner}>
        {children}
      </div>
    </div>
  );
}

/**
 * Returns the rows in the order in which they were shown while somebody points at their container: a new row then takes
 * the place of one that is gone, or comes last.
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

/**
 * Returns the rows in the order in which the user found them when the view was opened: a new row then takes the place of
 * one that is gone, or comes last.
 */
export function useFixedOrder<Row>(rows: readonly Row[], idOf: (row: Row) => string): readonly Row[] {
  const held = useRef<readonly Row[]>([]);
  held.current = inOrderOf(held.current, rows, idOf);
  return held.current;
}

function inOrderOf<Row>(
  held: readonly Row[],
  rows: readonly Row[],
  idOf: (row: Row) => string,
): readonly Row[] {
  const before = held.map((item) => ({ item, isOver: false }));
  return keepPlaces(before, rows, idOf).flatMap(({ item, isOver }) => (isOver ? [] : item));
}
