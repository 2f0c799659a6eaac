import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { onMoveRow } from '../keyboard.ts';
import { href } from '../router.ts';
import { useStillOrder } from './still.tsx';
import { isTouched } from './window.ts';

interface TableProps<Row> {
  /** The name of the table, for those who do not see it. */
  label: string;
  columns: readonly Column<Row>[];
  rows: readonly Row[];
  /** The height of every row, px; where rows are touched, they are at least 40 px high. */
  rowHeight: number;
  idOf(row: Row): string;
  /** Returns where a click on the row leads, from the page's root. */
  pathOf?(row: Row): string;
  classOf?(row: Row): string;
  /** The key of the column by which the table is sorted, after a minus for descending. */
  sort?: string | null;
  onSort?(sort: string): void;
  /** Whether the table is one of several, and the keys for rows act on another one. */
  isAside?: boolean;
}

/** The least height of what is touched, px. */
const FINGER = 40;

/** Shows a table of any length: only rows in view, and some around them, are in the document. */
export function Table<Row>(props: TableProps<Row>) {
  const { label, columns, idOf, pathOf, classOf } = props;
  const rowHeight = isTouched ? Math.max(props.rowHeight, FINGER) : props.rowHeight;
  const body = useRef<HTMLTableSectionElement>(null);
  const rows = useStillOrder(body, props.rows, idOf);
  const [first, last] = useRowsInView(body, rows.length, rowHeight);
  useRowKeys(body, props.isAside ? null : rows.length, rowHeight);
  return (
    <div class="table">
      <table aria-label={label} aria-rowcount={rows.length + 1}>
        <colgroup>
          {columns.map(({ key, width, narrow, drop }) => (
            <col key={key} class={dropClass(drop)} style={{ '--width': px(width), '--narrow': px(narrow) }} />
          ))}
        </colgroup>
        <thead>
          <tr aria-rowindex={1}>
            {columns.map((column) => (
              <Head key={column.key} column={column} sort={props.sort ?? null} onSort={props.onSort} />
            ))}
          </tr>
        </thead>
        <tbody ref={body}>
          <Spacer height={first * rowHeight} />
          {rows.slice(first, last).map((row, i) => (
            <TableRow
              key={idOf(row)}
              {...{ row, columns, rowHeight, index: first + i }}
              {...{ id: idOf(row), path: pathOf?.(row), className: classOf?.(row) }}
            />
          ))}
          <Spacer height={(rows.length - last) * rowHeight} />
        </tbody>
      </table>
    </div>
  );
}

function px(length: number | undefined): string {
  return length === undefined ? 'auto' : `${length}px`;
}

/** Fills the height of rows that are not in the document. */
function Spacer({ height }: { height: number }) {
  if (height <= 0) return null;
  return (
    <tr class="spacer" style={{ height: `${height}px` }}>
      <td />
    </tr>
  );
}

interface HeadProps<Row> {
  column: Column<Row>;
  sort: string | null;
  onSort: ((sort: string) => void) | undefined;
}

function Head<Row>({
  column: { key, head, title, isNumber, drop, isSortable },
  sort,
  onSort,
}: HeadProps<Row>) {
  const isSorted = sort === key || sort === `-${key}`;
  const direction = sort === key ? 'ascending' : 'descending';
  return (
    <th
      scope="col"
      class={`${isNumber ? 'number ' : ''}${dropClass(drop)}`}
      title={title}
      aria-sort={isSorted ? direction : undefined}
    >
      {isSortable && onSort ? (
        <button type="button" onClick={() => onSort(sort === `-${key}` ? key : `-${key}`)}>
          {head}
          {isSorted && <span aria-hidden="true">{sort === key ? ' ↑' : ' ↓'}</span>}
        </button>
      ) : (
        head
      )}
    </th>
  );
}

interface RowProps<Row> {
  row: Row;
  columns: readonly Column<Row>[];
  /** The row's height, px. */
  rowHeight: number;
  /** The row's index among all rows of the table. */
  index: number;
  id: string;
  path: string | undefined;
  className: string | undefined;
}

/**
 * Shows one row of a table. It is drawn again only if it is a different object, since rows are never changed: a frame
 * of the live connection replaces few of the rows in view. A value that ticks in a cell is a signal, which redraws that
 * cell alone.
 */
function TableRow<Row>(props: RowProps<Row>) {
  return useMemo(() => <DrawnRow {...props} />, Object.values(props));
}

function DrawnRow<Row>({ row, columns, rowHeight, index, id, path, className }: RowProps<Row>) {
  return (
    <tr
      class={className}
      data-id={id}
      data-href={path === undefined ? undefined : href(path)}
      aria-rowindex={index + 2}
      style={{ height: `${rowHeight}px` }}
    >
      {columns.map(({ key, cell, isNumber, drop }) => (
        <td key={key} class={`${isNumber ? 'number ' : ''}${dropClass(drop)}`}>
          {cell(row)}
        </td>
      ))}
    </tr>
  );
}

/** A column of a table. */
export interface Column<Row> {
  key: string;
  head: string;
  /** The full text of a head that is shortened. */
  title?: string;
  /** The column's width, px; one column without a width takes the rest. */
  width?: number;
  /** The column's width in a table as narrow as on a phone, px. */
  narrow?: number;
  isNumber?: boolean;
  /** Narrow tables drop columns, the lowest number first. */
  drop?: 1 | 2 | 3 | 4 | 5;
  /** Whether a click on the column's head sorts by it. */
  isSortable?: boolean;
  cell(row: Row): ComponentChildren;
}

function dropClass(drop: number | undefined): string {
  return drop ? `drop-${drop}` : '';
}

/** The number of rows in the document above and below those in view. */
const OVERSCAN = 10;
/** Other rows are drawn each time that this many have scrolled: few at a time, so that no frame is late for them. */
const STEP = 5;

type Body = { current: HTMLTableSectionElement | null };

/** Returns the range of rows in or near the view: [first, last). */
function useRowsInView(body: Body, rows: number, rowHeight: number): [number, number] {
  const [first, setFirst] = useState(0);
  const inView = Math.ceil(innerHeight / rowHeight);
  const measure = () => {
    const top = body.current?.getBoundingClientRect().top ?? 0;
    // The first row moves in steps, so that few scrolls redraw.
    const row = Math.floor(-top / rowHeight / STEP) * STEP;
    setFirst(Math.max(0, row - OVERSCAN));
  };
  useLayoutEffect(measure, [rows, rowHeight]);
  // The listeners are added before the next frame, since the router scrolls in that frame when somebody goes back.
  useLayoutEffect(() => {
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
 * Lets `j` and `k` move the focus from row to row, even to rows that are not in view yet. @param rows the number of
 * rows, or null if the keys belong to another table
 */
function useRowKeys(body: Body, rows: number | null, rowHeight: number): void {
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
      // A row that is scrolled into view is drawn in the next frame.
      requestAnimationFrame(() =>
        requestAnimationFrame(() =>
          table.querySelector<HTMLElement>(`[aria-rowindex="${next + 2}"] a`)?.focus({ preventScroll: true }),
        ),
      );
    });
  }, [rows, rowHeight]);
}

/** The height at the top that the bar and the table's head cover, px. */
const COVERED = 80;

function firstInView(table: HTMLElement, rowHeight: number): number {
  return Math.ceil(Math.max(0, COVERED - table.getBoundingClientRect().top) / rowHeight);
}

function bringIntoView(table: HTMLElement, row: number, rowHeight: number): void {
  const top = table.getBoundingClientRect().top + row * rowHeight;
  if (top < COVERED) scrollBy(0, top - COVERED);
  else if (top + rowHeight > innerHeight) scrollBy(0, top + rowHeight - innerHeight);
}
