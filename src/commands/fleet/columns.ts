/** `3`, `2.07–3.00`, `2.07 or more`, and what stands for a number that is not known. */
const NUMBER = /^[\d.–?]+(?: or more)?$/;

/** Rows in columns as wide as their widest cell, the first row being the titles. Numbers stand to the right. */
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
