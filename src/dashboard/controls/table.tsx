import { useRef } from 'preact/hooks';
import { type Column, dropClass } from './column.ts';
import { useRowKeys, useRowsInView } from './rows-in-view.ts';
import { useStillOrder } from './still-order.ts';
import { TableRow } from './table-row.tsx';

interface TableProps<Row> {
  /** What the table lists, for those who do not see it. */
  label: string;
  columns: readonly Column<Row>[];
  rows: readonly Row[];
  /** The height of every row, px. */
  rowHeight: number;
  idOf(row: Row): string;
  /** Returns where a click on the row leads, from the page's root. */
  pathOf?(row: Row): string;
  classOf?(row: Row): string;
  /** The key of the column that the table is sorted by, with a minus first for descending. */
  sort?: string | null;
  onSort?(sort: string): void;
  /** Whether the table is one of several, and the keys for rows belong to another one. */
  isAside?: boolean;
}

/** Shows a table of any length: only rows in view, and some around them, are in the document. */
export function Table<Row>(props: TableProps<Row>) {
  const { label, columns, rowHeight, idOf, pathOf, classOf } = props;
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
