/** A pause that doubles with each failure in a row, ms. @param failures 0 or 1: the first pause */
export function doubling(firstMs: number, longestMs: number, failures: number): number {
  // Doubled more often it would be no number.
  return Math.min(longestMs, firstMs * 2 ** Math.min(30, Math.max(0, failures - 1)));
}
