import { useEffect, useLayoutEffect, useState } from 'preact/hooks';
import { onMoveRow } from '../keyboard.ts';

/** The number of rows in the document above and below those in view. */
const OVERSCAN = 10;
/** Other rows are drawn after this many have scrolled: few at a time, so that no frame is late for them. */
const STEP = 5;

type Body = { current: HTMLTableSectionElement | null };

/** Returns the rows in view, or near it: [first, last). */
export function useRowsInView(body: Body, rows: number, rowHeight: number): [number, number] {
  const [first, setFirst] = useState(0);
  const inView = Math.ceil(innerHeight / rowHeight);
  const measure = () => {
    const top = body.current?.getBoundingClientRect().top ?? 0;
    // The first row moves in steps, so that few scrolls redraw.
    const row = Math.floor(-top / rowHeight / STEP) * STEP;
    setFirst(Math.max(0, row - OVERSCAN));
  };
  useLayoutEffect(measure, [rows]);
  useEffect(() => {
    addEventListener('scroll', measure, { passive: true });
    addEventListener('resize', measure, { passive: true });
    return () => {
      removeEventListener('scroll', measure);
      removeEventListener('resize', measure);
    };
  }, [rowHeight]);
  const from = Math.min(first, Math.max(0, rows - inView));
  return [from, Math.min(rows, from + inView + 2 * OVERSCAN)];
}

/**
 * Lets `j` and `k` move the focus from row to row, also to those that are not in view yet. @param rows the number of
 * rows, or null where the keys belong to another table
 */
export function useRowKeys(body: Body, rows: number | null, rowHeight: number): void {
  useEffect(() => {
    if (rows === null) return;
    return onMoveRow((by) => {
      const table = body.current;
      if (!table || rows === 0) return;
      const focused = document.activeElement?.closest('tr');
      const current = focused && table.contains(focused) ? focused.getAttribute('aria-rowindex') : null;
      const wanted = current ? Number(current) - 2 + by : firstInView(table, rowHeight);
      const next = Math.max(0, Math.min(rows - 1, wanted));
      bringIntoView(table, next, rowHeight);
      // A row that is scrolled into view is drawn in the frame after.
      requestAnimationFrame(() =>
        requestAnimationFrame(() =>
          table.querySelector<HTMLElement>(`[aria-rowindex="${next + 2}"] a`)?.focus({ preventScroll: true }),
        ),
      );
    });
  }, [rows, rowHeight]);
}

/** The px at the top that the bar and the table's head cover. */
const COVERED = 80;

function firstInView(table: HTMLElement, rowHeight: number): number {
  return Math.ceil(Math.max(0, COVERED - table.getBoundingClientRect().top) / rowHeight);
}

function bringIntoView(table: HTMLElement, row: number, rowHeight: number): void {
  const top = table.getBoundingClientRect().top + row * rowHeight;
  if (top < COVERED) scrollBy(0, top - COVERED);
  else if (top + rowHeight > innerHeight) scrollBy(0, top + rowHeight - innerHeight);
}
