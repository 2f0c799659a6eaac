/** A number in a cell: `3`, `2.07–3.00`, `2.07 or more`, or the sign for an unknown one. */
const NUMBER = /^[\d.–?]+(?: or more)?$/;

/**
 * Returns rows with columns as wide as their widest cell; the first row has the titles. Numbers are aligned to the
 * right.
 */
export function columns(rows: readonly (readonly string[])[]): string[] {
  const [head = [], ...body] = rows;
  const widths = head.map((_, at) => Math.max(...rows.map((row) => row[at]?.length ?? 0)));
  const isNumber = head.map((_, at) => body.every((row) => NUMBER.test(row[at] ?? '')));
  return rows.map((row) =>
    row
      .map((cell, at) => (isNumber[at] ? cell.padStart(widths[at]!) : cell.padEnd(widths[at]!)))
      .join('  ')
      .trimEnd(),
  );
}
