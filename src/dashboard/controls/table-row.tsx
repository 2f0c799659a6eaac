import { useMemo } from 'preact/hooks';
import { href } from '../router.ts';
import { type Column, dropClass } from './column.ts';

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
 * Shows one row of a table. It is drawn again only once it is another object, since rows are never changed: a frame of
 * the live connection replaces few of the rows in view. Whatever ticks in a cell is a signal, which draws that cell
 * alone.
 */
export function TableRow<Row>(props: RowProps<Row>) {
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
