import type { ComponentChildren } from 'preact';

/** A column of a table. */
export interface Column<Row> {
  key: string;
  head: string;
  /** The full text of a head that is shortened. */
  title?: string;
  /** The column's width, px; one column without a width takes the rest. */
  width?: number;
  /** The column's width where the table is as narrow as on a phone, px. */
  narrow?: number;
  isNumber?: boolean;
  /** Narrow tables drop columns, the lowest number first. */
  drop?: 1 | 2 | 3 | 4 | 5;
  /** Whether the column's head sorts by it. */
  isSortable?: boolean;
  cell(row: Row): ComponentChildren;
}

export function dropClass(drop: number | undefined): string {
  return drop ? `drop-${drop}` : '';
}
