/** One row of the report. */
export type FigureRow = [label: string, value: string | number];

/** The report's table. */
export function tableOf(rows: FigureRow[]): string {
  const width = Math.max(...rows.map(([label]) => label.length));
  return rows.map(([label, value]) => `  ${label.padEnd(width)}  ${value}`).join('\n');
}
