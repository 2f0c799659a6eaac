import type { ComponentChildren } from 'preact';

/** Of a table. */
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

export function dropClass(drop: number | undefined): string {
  return drop ? `drop-${drop}` : '';
}
