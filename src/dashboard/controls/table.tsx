import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { onMoveRow } from '../keyboard.ts';
import { href } from '../router.ts';
import { useStillOrder } from './still-order.ts';

export interface Column<Row> {
  key: string;
  head: string;
  /** Of the head, where it is short for something. */
  title?: string;
  /** px; one column without takes what is left. */
  width?: number;
  /** The same where the table is as narrow as on a phone. */
  narrow?: number;
  isNumber?: boolean;
  /** Narrow tables leave columns out, the lowest number first. */
  drop?: 1 | 2 | 3 | 4 | 5;
  /** Its head sorts by it. */
  isSortable?: boolean;
  cell(row: Row): ComponentChildren;
}

interface TableProps<Row> {
  /** What it lists, for those who do not see it. */
  label: string;
  columns: readonly Column<Row>[];
  rows: readonly Row[];
  /** px, the same for all. */
  rowHeight: number;
  idOf(row: Row): string;
  /** Where a click on the row leads, from the page's root. */
  pathOf?(row: Row): string;
  classOf?(row: Row): string;
  /** Key of the column it is sorted by; with a minus first: downwards. */
  sort?: string | null;
  onSort?(sort: string): void;
  /** One of several: the keys for rows are another's. */
  isAside?: boolean;
}

/** Rows that are there above and below those in view. */
const OVERSCAN = 10;
/** Rows that are scrolled before others are drawn. */
const STEP = 5;

/** A table of any length: only rows in view, and some around them, are in the document. */
export function Table<Row>(props: TableProps<Row>) {
  const { label, columns, rowHeight, idOf, pathOf, classOf } = props;
  const body = useRef<HTMLTableSectionElement>(null);
  const rows = useStillOrder(body, props.rows, idOf);
  const [first, last] = useWindow(body, rows.length, rowHeight);
  useRowKeys(body, props.isAside ? null : rows.length, rowHeight);
  const shown = rows.slice(first, last);
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
          {shown.map((row, i) => (
            <tr
              key={idOf(row)}
              class={classOf?.(row)}
              data-id={idOf(row)}
              data-href={pathOf && href(pathOf(row))}
              aria-rowindex={first + i + 2}
              style={{ height: `${rowHeight}px` }}
            >
              {columns.map(({ key, cell, isNumber, drop }) => (
                <td key={key} class={`${isNumber ? 'number ' : ''}${dropClass(drop)}`}>
                  {cell(row)}
                </td>
              ))}
            </tr>
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

function dropClass(drop: number | undefined): string {
  return drop ? `drop-${drop}` : '';
}

/** Stands for the rows that are not there. */
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

type Body = { current: HTMLTableSectionElement | null };

/** Which rows are in view, or near it: [first, last). */
function useWindow(body: Body, rows: number, rowHeight: number): [number, number] {
  const [first, setFirst] = useState(0);
  const inView = Math.ceil(innerHeight / rowHeight);
  const measure = () => {
    const top = body.current?.getBoundingClientRect().top ?? 0;
    // In steps, so that few scrolls draw anew.
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

/** `j` and `k` move the focus from row to row, also to those that are not in view yet. @param rows null: not here */
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
      // What is scrolled to is drawn in the frame after.
      requestAnimationFrame(() =>
        requestAnimationFrame(() =>
          table.querySelector<HTMLElement>(`[aria-rowindex="${next + 2}"] a`)?.focus({ preventScroll: true }),
        ),
      );
    });
  }, [rows, rowHeight]);
}

/** px at the top that the bar and the table's head cover. */
const COVERED = 80;

function firstInView(table: HTMLElement, rowHeight: number): number {
  return Math.ceil(Math.max(0, COVERED - table.getBoundingClientRect().top) / rowHeight);
}

function bringIntoView(table: HTMLElement, row: number, rowHeight: number): void {
  const top = table.getBoundingClientRect().top + row * rowHeight;
  if (top < COVERED) scrollBy(0, top - COVERED);
  else if (top + rowHeight > innerHeight) scrollBy(0, top + rowHeight - innerHeight);
}
